"""The alert rules and the dashboard use metrics that exist, and Prometheus accepts both."""

import copy
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.test import Client

from ledger.models import Agent
from retries import metric_totals
from tests.factories import NOW, make_instruction
from tests.retries.moves import attempt_of, claim, fail, make_task
from tests.serving import ROOT

RULES = ROOT / "deploy" / "prometheus" / "tenfour.rules.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "tenfour.json"
NAME = re.compile(r"\btenfour_[a-z_]+")

needs_promtool = pytest.mark.skipif(
    not shutil.which("promtool"), reason="promtool is not installed (Debian: prometheus)"
)


def rules() -> list[dict[str, Any]]:
    [group] = yaml.safe_load(RULES.read_text())["groups"]
    return list(group["rules"])


def panels() -> list[dict[str, Any]]:
    return list(json.loads(DASHBOARD.read_text())["panels"])


def scrape(settings: Any) -> str:
    settings.TENFOUR = {**settings.TENFOUR, "METRICS_ALLOW": ["127.0.0.1"]}
    return Client().get("/metrics").content.decode()


@pytest.mark.django_db(transaction=True)
def test_every_metric_in_rules_and_dashboard_exists(agent: Agent, settings: Any) -> None:
    make_instruction("failed", agent=agent)
    make_task(agent, max_attempts=1)
    fail(agent, attempt_of(claim(agent)), now=NOW)
    metric_totals.count_events(now=NOW)
    known = set(re.findall(r"^# TYPE (\S+)", scrape(settings), re.M))
    known |= {f"{name}_{part}" for name in known for part in ("bucket", "count", "sum", "total")}
    used = [rule["expr"] for rule in rules()]
    used += [target["expr"] for panel in panels() for target in panel["targets"]]
    named = {name for text in used for name in NAME.findall(text)}
    assert len(named) > 12
    assert named - known == set()


@needs_promtool
def test_prometheus_accepts_the_rules() -> None:
    done = subprocess.run(["promtool", "check", "rules", RULES], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
@pytest.mark.django_db
def test_prometheus_accepts_the_metrics(agent: Agent, settings: Any) -> None:
    make_task(agent)
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=scrape(settings), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
@pytest.mark.parametrize(
    ("values", "does_alert"),
    [
        ("0 2x30", True),
        # each probe fails, so the breaker is half open at some scrapes
        ("0 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1", True),
        # it opened once, and no task came that could close it
        ("0 2 1x30", False),
        ("0 2 1 0x30", False),
    ],
)
def test_a_breaker_that_stays_open_raises_its_alert(
    values: str, does_alert: bool, tmp_path: Path
) -> None:
    """Prometheus itself evaluates the rules over series that an agent would give."""
    series = 'tenfour_breaker_state{agent="coder",project="default"}'
    alert = {
        "exp_labels": {"agent": "coder", "project": "default", "severity": "warning"},
        "exp_annotations": {
            "summary": "The breaker of coder has been open, or opened repeatedly, for ten minutes.",
            "description": "The agent gets few or no tasks. Its page shows the failures that "
            "opened the breaker.",
        },
    }
    expected = {"5m": [], "20m": [alert] if does_alert else []}
    story = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": series, "values": values}],
                "alert_rule_test": [
                    {"eval_time": at, "alertname": "TenfourBreakerOpen", "exp_alerts": alerts}
                    for at, alerts in expected.items()
                ],
            }
        ],
    }
    (tmp_path / "test.yml").write_text(yaml.safe_dump(story))
    done = subprocess.run(
        ["promtool", "test", "rules", tmp_path / "test.yml"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def find_lost(raw: Any, read: Any, path: str = "") -> list[str]:
    """Return the paths of what is in the JSON value `raw` and not in `read`, or differs there."""
    if isinstance(raw, dict) and isinstance(read, dict):
        return [
            each
            for key, value in raw.items()
            for each in find_lost(value, read.get(key), f"{path}/{key}")
        ]
    if isinstance(raw, list) and isinstance(read, list) and len(raw) == len(read):
        pairs = enumerate(zip(raw, read, strict=True))
        return [each for n, pair in pairs for each in find_lost(*pair, f"{path}/{n}")]
    return [] if raw == read else [path]


def test_grafana_reads_every_field_of_the_dashboard() -> None:
    """Its own types, which are made from its schema, drop what they do not know."""
    from grafana_foundation_sdk.cog import plugins
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.models.dashboard import Dashboard

    raw = json.loads(DASHBOARD.read_text())
    plugins.register_default_plugins()

    def list_lost() -> list[str]:
        read = Dashboard.from_json(copy.deepcopy(raw))
        return find_lost(raw, json.loads(JSONEncoder().encode(read)))

    assert list_lost() == []
    raw["refreshes"] = "30s"
    raw["panels"][0]["gridPosition"] = raw["panels"][0].pop("gridPos")
    raw["panels"][1]["targets"][0]["query"] = "up"  # Prometheus' is called expr
    assert list_lost() == [
        "/panels/0/gridPosition",
        "/panels/1/targets/0/query",
        "/refreshes",
    ]


def test_the_docs_explain_every_alert() -> None:
    text = (ROOT / "docs" / "monitoring.md").read_text()
    assert [rule["alert"] for rule in rules()] == re.findall(r"^\| `(Tenfour\w+)`", text, re.M)


def test_the_panels_of_the_dashboard_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells
        assert all(target["expr"] for target in panel["targets"])
