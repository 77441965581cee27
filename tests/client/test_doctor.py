"""What `tenfour doctor` finds, and what it advises."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tenfour import Me
from tenfour.setup.doctor import check_caller, judge_health
from tenfour.setup.findings import Finding
from tenfour.version import __version__

from tests.client.conftest import Run
from tests.serving import Tenfour

NOW = datetime(2026, 10, 21, 7, 28, tzinfo=UTC)
WELL = {
    "kind": "agent",
    "agent": "coder",
    "agent_id": "1",
    "project": {"id": "2", "name": "default"},
    "scopes": ["instructions:ack"],
    "server_time": NOW.isoformat(),
    "version": __version__,
    "token": {"expires_at": (NOW + timedelta(days=80)).isoformat()},
}


def test_all_is_well(run: Run, tenfour_server: Tenfour) -> None:
    env = {
        "TENFOUR_URL": tenfour_server.url,
        "TENFOUR_TOKEN": tenfour_server.token("agent", "coder"),
    }
    well = run("doctor", env=env)
    assert well.status == 0, well.out
    assert f"ok    Tenfour responds at {tenfour_server.url}" in well.out
    assert "of agent coder in project client-" in well.out and "instructions:ack" in well.out
    assert all(line[:4] in {"ok  ", "warn"} for line in well.out.splitlines())


def test_a_wrong_token_is_found_while_the_server_is_well(run: Run, tenfour_server: Tenfour) -> None:
    ill = run("doctor", env={"TENFOUR_URL": tenfour_server.url, "TENFOUR_TOKEN": "tenfour_agt_x"})
    assert ill.status == 1
    assert "ok    Tenfour responds" in ill.out and "fail  Token: " in ill.out


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ({}, "fail  TENFOUR_URL is not set"),
        (
            {"TENFOUR_URL": "http://127.0.0.1:1", "TENFOUR_TOKEN": "x"},
            "fail  Tenfour cannot be reached",
        ),
    ],
)
def test_what_cannot_be_reached_fails_and_nothing_else_is_asked(
    run: Run, env: dict[str, str], says: str
) -> None:
    ill = run("doctor", env=env)
    assert (ill.status, len(ill.out.splitlines())) == (1, 1)
    assert ill.out.startswith(says)


@pytest.mark.parametrize(
    ("change", "level", "says"),
    [
        ({}, "ok", "Clocks agree"),
        ({"server_time": (NOW - timedelta(seconds=30)).isoformat()}, "warn", "30 s ahead of"),
        ({"server_time": (NOW + timedelta(seconds=30)).isoformat()}, "warn", "30 s behind"),
        ({"server_time": None}, "warn", "does not report its time"),
        ({"version": "9.0.0"}, "warn", "server 9.0.0"),
        ({"version": __version__ + ".post1"}, "ok", "Versions"),
        ({"token": {"expires_at": None}}, "ok", "does not expire"),
        ({"token": {"expires_at": (NOW + timedelta(days=2)).isoformat()}}, "warn", "in 2 days"),
        ({"kind": "reader", "agent": None}, "ok", "of reader in project default"),
    ],
)
def test_the_servers_answer_is_judged(change: dict[str, Any], level: str, says: str) -> None:
    findings = list(check_caller(Me.read(WELL | change), here=NOW))
    assert any(each.level == level and says in each.line for each in findings), findings


@pytest.mark.parametrize(
    ("ready", "level", "says"),
    [
        ({"status": "ok"}, "ok", "ready"),
        (
            {"status": "degraded", "checks": {"redis": "away", "database": "ok"}},
            "warn",
            "redis away",
        ),
        ({"status": "degraded"}, "warn", "degraded"),
    ],
)
def test_health_is_judged(ready: dict[str, Any], level: str, says: str) -> None:
    finding = judge_health(ready)
    assert finding.level == level and says in finding.line


def test_a_finding_is_one_line() -> None:
    assert (
        Finding("warn", "Redis is away.", "Look there.").line == "warn  Redis is away. Look there."
    )
