"""The alert rules and the dashboard use metrics that exist, and Prometheus accepts both."""

import copy
import json
import re
import subprocess
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.test import Client

from ledger.models import Agent
from retries.journal_readers import metric_totals
from tests.config.test_metrics import METRICS
from tests.factories import NOW, make_instruction
from tests.programs import require_program
from tests.retries.moves import attempt_of, claim, fail, make_task
from tests.serving import ROOT

RULES = ROOT / "deploy" / "prometheus" / "tenfour.rules.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "tenfour.json"
NAME = re.compile(r"\btenfour_[a-z_]+")

PREFIX = "tenfour_"
FAILURES = 'clock_failures_total{entry="metrics"}'
FAILING = 'clock_failing{entry="metrics"}'
BREAKER = 'breaker_state{agent="coder",project="p"}'
OPEN = {"agent": "coder", "project": "p"}
FAILED_TASK = 'task_transitions_total{project="p",from="running",to="failed"}'
FAILED_TASKS = {
    'task_transitions_total{project="p",from="queued",to="failed"}': "0x20 1+1x9 10x60",
    'task_transitions_total{project="p",from="running",to="done"}': "0+9x90",
}
READY = 'readiness{check="redis"}'
QUEUE = 'queue_oldest_age_seconds{queue="celery"}'
ACTIVE = 'postgres_connections{state="active"}'
IDLE = 'postgres_connections{state="idle"}'
MOST = "postgres_connections_max{}"
TABLE = '{table="ledger_task"}'
FAILED_WEBHOOK = 'webhook_deliveries_total{event_type="task.failed",status_class="5xx"}'
SENT_WEBHOOK = 'webhook_deliveries_total{event_type="task.failed",status_class="2xx"}'
# Prometheus takes a label with an empty value for one that is missing.
BURN = 'target_burn_sum{agent="",measure="wait",plan="",project="p",type="code"}'
CASES = 'target_burn_count{agent="",measure="wait",plan="",project="p",type="code"}'
TARGET = {"measure": "wait", "project": "p", "type": "code"}
IGNORED = 'instructions_total{agent="coder",outcome="failed",urgency="normal"}'


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


def promtool(*argv: str | Path, given: str = "") -> None:
    """Run promtool, which must succeed; it says what it found wrong."""
    program = require_program("promtool")
    done = subprocess.run([program, *argv], input=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_accepts_the_rules() -> None:
    promtool("check", "rules", RULES)


@pytest.mark.django_db
def test_prometheus_accepts_the_metrics(agent: Agent, settings: Any) -> None:
    make_task(agent)
    promtool("check", "metrics", given=scrape(settings))


# What agents would give: an alert, series with a value for each minute, when to look, and the labels
# of the alert that is raised then, or None. Two web servers show the same values.
COUNTED_ONCE: list[tuple[str, dict[str, str], str, dict[str, str] | None]] = [
    ("ClockStopped", {'beat_last_run_timestamp_seconds{job="idle_check"}': "0x20"}, "5m", None),
    (
        "ClockStopped",
        {'beat_last_run_timestamp_seconds{job="idle_check"}': "0x20"},
        "6m",
        {"job": "idle_check", "severity": "critical"},
    ),
    ("ClockStopped", {'beat_last_run_timestamp_seconds{job="idle_check"}': "0+60x20"}, "15m", None),
    ("HostClockWrong", {'host_clock_ahead_seconds{process="web"}': "0 3x4 0x20"}, "8m", None),
    ("HostClockWrong", {'host_clock_ahead_seconds{process="web"}': "2x30"}, "20m", None),
    (
        "HostClockWrong",
        {'host_clock_ahead_seconds{process="web"}': "3x30"},
        "20m",
        {"process": "web"},
    ),
    (
        "HostClockWrong",
        {
            'host_clock_ahead_seconds{process="worker"}': "-3600x30",
            'host_clock_ahead_seconds{process="web"}': "0x30",
        },
        "20m",
        {"process": "worker"},
    ),
    # it fails at each of its runs, fast ones and slow ones
    (
        "ClockEntryFails",
        {FAILURES: "0+60x120", FAILING: "1x120"},
        "8m",
        {"entry": "metrics", "severity": "critical"},
    ),
    ("ClockEntryFails", {FAILURES: "0+60x120", FAILING: "1x120"}, "4m", None),
    (
        "ClockEntryFails",
        {FAILURES: "0x29 1x29 2x29 3x29", FAILING: "0x29 1x90"},
        "70m",
        {"entry": "metrics", "severity": "critical"},
    ),
    # it failed once, and its next run is half an hour away
    ("ClockEntryFails", {FAILURES: "0x29 1x90", FAILING: "0x29 1x90"}, "50m", None),
    # it failed twice, and has succeeded since
    ("ClockEntryFails", {FAILURES: "0x9 1x9 2x90", FAILING: "0x9 1x19 0x90"}, "40m", None),
    # it fails now and then, and succeeds otherwise
    ("ClockEntryFails", {FAILURES: "0+1x120", FAILING: "0 1 0x2 1 0x120"}, "60m", None),
    # none was ever closed, so the counter of the closed ones is not there
    ("EscalationsWait", {'escalations_open{reason="loop"}': "1x400"}, "2h", {}),
    ("EscalationsWait", {'escalations_open{reason="loop"}': "1x400"}, "30m", None),
    (
        "EscalationsWait",
        {
            'escalations_open{reason="loop"}': "1x400",
            'escalations_total{reason="loop",action="fix"}': "1 2 3x400",
        },
        "6h",
        {},
    ),
    (
        "EscalationsWait",
        {
            'escalations_open{reason="loop"}': "1x400",
            'escalations_total{reason="loop",action="fix"}': "1x200 2x200",
        },
        "6h",
        None,
    ),
    ("EscalationsWait", {'escalations_total{reason="loop",action="fix"}': "1x400"}, "6h", None),
    ("BreakerOpen", {BREAKER: "0 2x30"}, "5m", None),
    ("BreakerOpen", {BREAKER: "0 2x30"}, "20m", OPEN),
    # each probe fails, so the breaker is half open at some scrapes
    ("BreakerOpen", {BREAKER: "0 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1 2 1"}, "20m", OPEN),
    # it opened once, and no task came that could close it
    ("BreakerOpen", {BREAKER: "0 2 1x30"}, "20m", None),
    ("BreakerOpen", {BREAKER: "0 2 1 0x30"}, "20m", None),
    # it closed before the ten minutes, but was open within the last five of them
    ("BreakerOpen", {BREAKER: "0 2x6 0x20"}, "11m", None),
    (
        "TasksWait",
        {'tasks_oldest_age_seconds{agent="coder",state="queued"}': "3541+60x5"},
        "1m",
        {"agent": "coder"},
    ),
    (
        "TasksWait",
        {
            'tasks_oldest_age_seconds{agent="coder",state="queued"}': "3540+60x5",
            'tasks_oldest_age_seconds{agent="coder",state="running"}': "9000+60x5",
        },
        "1m",
        None,
    ),
    (
        "LeasesExpire",
        {
            'leases_expired_total{agent="coder"}': "0+2x90",
            'attempts_total{agent="coder",outcome="failure"}': "0+2x90",
            'attempts_total{agent="coder",outcome="success"}': "0+17x90",
        },
        "80m",
        {"agent": "coder"},
    ),
    (
        "LeasesExpire",
        {
            'leases_expired_total{agent="coder"}': "0+2x90",
            'attempts_total{agent="coder",outcome="failure"}': "0+2x90",
            'attempts_total{agent="coder",outcome="success"}': "0+18x90",
        },
        "80m",
        None,
    ),
    ("DeadLetters", FAILED_TASKS | {FAILED_TASK: "0x20 1+1x9 10x60"}, "75m", None),
    ("DeadLetters", FAILED_TASKS | {FAILED_TASK: "0x20 1+1x10 11x60"}, "75m", {"project": "p"}),
    # a target of 95%, and all are late
    ("TargetBurnsFast", {BURN: "0+20x90", CASES: "0+1x90"}, "30m", TARGET),
    # all are late for ten minutes, of the three hours in which the budget would burn as fast
    ("TargetBurnsFast", {BURN: "0+20x10 200x400", CASES: "0+1x410"}, "60m", TARGET),
    ("TargetBurnsFast", {BURN: "0+20x10 200x400", CASES: "0+1x410"}, "110m", None),
    # one in ten is late, of a target of 95%
    ("TargetBurnsFast", {BURN: "0+1.9x400", CASES: "0+1x400"}, "390m", None),
    ("TargetBurnsFast", {BURN: "0+2.1x400", CASES: "0+1x400"}, "390m", TARGET),
    # few cases
    ("TargetBurnsFast", {BURN: "0+20x9 180x60", CASES: "0+1x9 9x60"}, "60m", None),
    ("NotReady", {READY: "1x10 0x20"}, "14m", None),
    ("NotReady", {READY: "1x10 0x20"}, "17m", {"check": "redis", "severity": "critical"}),
    ("NotReady", {READY: "1x10 0x3 1x20"}, "17m", None),
    ("QueueWaits", {QUEUE: "0x10 130+60x20"}, "20m", {"queue": "celery"}),
    ("QueueWaits", {QUEUE: "0x10 110x20"}, "20m", None),
    ("QueueWaits", {QUEUE: "0 130x2 0 130x2 0 130x2 0 130x2"}, "11m", None),
    ("ArchiveFails", {'archive_failing{entry="journal"}': "0x5 1x5"}, "7m", {"entry": "journal"}),
    ("ArchiveFails", {'archive_failing{entry="journal"}': "1x5 0x5"}, "7m", None),
    ("Connections", {ACTIVE: "31x30", IDLE: "50x30", MOST: "100x30"}, "20m", {}),
    ("Connections", {ACTIVE: "29x30", IDLE: "50x30", MOST: "100x30"}, "20m", None),
    ("PoolWaits", {"pool_wait_seconds_total{}": "0+66x40"}, "30m", {}),
    ("PoolWaits", {"pool_wait_seconds_total{}": "0+54x40"}, "30m", None),
    (
        "DeadRows",
        {f"table_dead_rows{TABLE}": "1100000x90", f"table_live_rows{TABLE}": "1000000x90"},
        "70m",
        {"table": "ledger_task"},
    ),
    (
        "DeadRows",
        {f"table_dead_rows{TABLE}": "1100000x90", f"table_live_rows{TABLE}": "1200000x90"},
        "70m",
        None,
    ),
    (
        "DeadRows",
        {f"table_dead_rows{TABLE}": "900000x90", f"table_live_rows{TABLE}": "1000x90"},
        "70m",
        None,
    ),
    ("TransactionIds", {"transaction_id_age_ratio{}": "0.26x90"}, "70m", {"severity": "critical"}),
    # autovacuum freezes in time
    ("TransactionIds", {"transaction_id_age_ratio{}": "0.26x30 0.02x60"}, "70m", None),
    ("WebhooksFail", {FAILED_WEBHOOK: "0+6x60", SENT_WEBHOOK: "0+4x60"}, "40m", {}),
    ("WebhooksFail", {FAILED_WEBHOOK: "0+4x60", SENT_WEBHOOK: "0+6x60"}, "40m", None),
    # all fail, but they are few
    ("WebhooksFail", {FAILED_WEBHOOK: "0x20 1+1x3 4x40", SENT_WEBHOOK: "0x60"}, "40m", None),
    ("WebhooksWait", {'webhook_backlog{event_type="task.failed"}': "101x60"}, "40m", {}),
    ("WebhooksWait", {'webhook_backlog{event_type="task.failed"}': "100x60"}, "40m", None),
    ("InstructionsIgnored", {IGNORED: "0x20 1+1x4 5x400"}, "370m", None),
    ("InstructionsIgnored", {IGNORED: "0x20 1+1x5 6x400"}, "370m", {"agent": "coder"}),
]


def test_an_alert_means_the_same_with_any_number_of_web_servers(tmp_path: Path) -> None:
    """Prometheus itself evaluates the rules."""
    stories = []
    for (alert, series, at, raised), servers in product(COUNTED_ONCE, [1, 2]):
        shown = [(name, values, str(n)) for name, values in series.items() for n in range(servers)]
        stories.append(tell_story(alert, shown, at, raised))
    run_tests(tmp_path, *stories)


REQUESTS = 'http_requests_total{op="me_get",status_class="2xx"}'
ERRORS = 'http_requests_total{op="me_get",status_class="5xx"}'


def test_the_errors_of_all_web_servers_count_together(tmp_path: Path) -> None:
    high = {"severity": "critical"}
    stories: list[tuple[dict[str, str] | None, list[tuple[str, str, str]]]] = [
        (high, [(REQUESTS, "0+98x30", "0"), (ERRORS, "0+2x30", "0")]),
        (None, [(REQUESTS, "0+99x30", "0"), (ERRORS, "0+1x30", "0")]),
        (None, [(REQUESTS, "0+100x30", "0")]),
        # each web server counts its own requests
        (high, [(REQUESTS, "0+49x30", "0"), (REQUESTS, "0+49x30", "1"), (ERRORS, "0+2x30", "1")]),
        (None, [(REQUESTS, "0+50x30", "0"), (REQUESTS, "0+49x30", "1"), (ERRORS, "0+1x30", "1")]),
    ]
    told = (tell_story("Errors", shown, "25m", raised) for raised, shown in stories)
    run_tests(tmp_path, *told)


def test_every_alert_has_a_story() -> None:
    told = {f"Tenfour{alert}" for alert, *_ in COUNTED_ONCE} | {"TenfourErrors"}
    assert told == {rule["alert"] for rule in rules()}


def tell_story(
    alert: str, shown: list[tuple[str, str, str]], at: str, raised: dict[str, str] | None
) -> dict[str, Any]:
    """Return a test of promtool that shows series to the rules, and compares the alerts."""
    [rule] = [each for each in rules() if each["alert"] == f"Tenfour{alert}"]
    alerts = []
    if raised is not None:
        notes = {
            name: re.sub(
                r"{{ \$labels\.(\w+) }}", lambda label: (raised or {}).get(label[1], ""), text
            )
            for name, text in rule["annotations"].items()
        }
        alerts = [{"exp_labels": rule["labels"] | raised, "exp_annotations": notes}]
    question = {"eval_time": at, "alertname": rule["alert"], "exp_alerts": alerts}
    return make_test(shown, alert_rule_test=[question])


def label_server(series: str, server: str) -> str:
    """Return a series with the labels of the web server that shows it."""
    labels = f'instance="{server}",pod="web-{server}"}}'
    return f"{series[:-1]}{'' if series.endswith('{}') else ','}{labels}"


def make_test(shown: list[tuple[str, str, str]], **questions: Any) -> dict[str, Any]:
    """Return questions about series, each with its values and the web server that shows it."""
    given = [
        {"series": label_server(f"{PREFIX}{name}", server), "values": values}
        for name, values, server in shown
    ]
    return {"name": str(shown), "interval": "1m", "input_series": given, **questions}


def run_tests(folder: Path, *tests: dict[str, Any]) -> None:
    """Let promtool ask all questions in one process; it names the tests that fail."""
    content = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [*tests]}
    (folder / "test.yml").write_text(yaml.safe_dump(content))
    promtool("test", "rules", folder / "test.yml")


# The label values that some panels ask for.
VALUES = {"to": "done", "outcome": "done", "state": "queued", "job": "idle_check",
          "op": "claims_create"}  # fmt: skip
PER_SERVER = re.compile("http_|auth_failures")


def list_series(prefix: str, servers: int) -> list[tuple[str, str, str]]:
    """Return a series for each metric, as some web servers show it; together they always agree."""
    found = []
    for name, (kind, labels) in METRICS.items():
        name = name.replace(PREFIX, prefix, 1)
        pairs = [f'{label}="{VALUES.get(label, "x")}"' for label in sorted(labels)]
        step = 4 // servers if PER_SERVER.search(name) else 4
        parts = {"gauge": {"": "2x100"}, "counter": {"_total": f"0+{step}x100"}}.get(kind) or {
            '_bucket le="1.0"': f"0+{step // 2}x100",
            '_bucket le="+Inf"': f"0+{step}x100",
            "_count": f"0+{step}x100",
        }
        for part, values in parts.items():
            suffix, _, edge = part.partition(" ")
            inside = ",".join([*pairs, *([edge] if edge else [])])
            found += [(f"{name}{suffix}{{{inside}}}", values, str(n)) for n in range(servers)]
    return found


def test_every_panel_shows_the_same_with_one_web_server_and_with_two(tmp_path: Path) -> None:
    shown = list_series("", 2) + list_series("single_", 1)
    questions = []
    for panel in panels():
        for target in panel["targets"]:
            two = target["expr"].replace("$__rate_interval", "5m")
            one = re.sub(rf"\b{PREFIX}", f"{PREFIX}single_", two)
            for empty in (f"({two}) != ({one})", f"absent({two})"):
                questions.append({"expr": empty, "eval_time": "90m", "exp_samples": []})
    assert len(questions) > 30
    run_tests(tmp_path, make_test(shown, promql_expr_test=questions))


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
    assert list_lost() == ["/panels/0/gridPosition", "/panels/1/targets/0/query", "/refreshes"]


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
