"""The alert rules and the dashboard use metrics that exist, and Prometheus accepts both."""

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
def test_an_open_breaker_raises_its_alert(tmp_path: Path) -> None:
    """Prometheus itself evaluates the rules over series that a broken agent would give."""
    series = 'tenfour_breaker_state{agent="coder",project="default"}'
    story = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": series, "values": "0 2x30"}],
                "alert_rule_test": [
                    {"eval_time": "5m", "alertname": "TenfourBreakerOpen", "exp_alerts": []},
                    {
                        "eval_time": "20m",
                        "alertname": "TenfourBreakerOpen",
                        "exp_alerts": [
                            {
                                "exp_labels": {
                                    "agent": "coder",
                                    "project": "default",
                                    "severity": "warning",
                                },
                                "exp_annotations": {
                                    "summary": "The breaker of coder has been open for ten "
                                    "minutes.",
                                    "description": "The agent gets no tasks. Its page shows the "
                                    "failures that opened the breaker.",
                                },
                            }
                        ],
                    },
                ],
            }
        ],
    }
    (tmp_path / "test.yml").write_text(yaml.safe_dump(story))
    done = subprocess.run(
        ["promtool", "test", "rules", tmp_path / "test.yml"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


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
