"""What the time of agents went to: each moment counts once."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from ledger.journal import SYSTEM, Kind, Stamp
from ledger.models import Agent, Attempt
from retries import in_process
from retries.insight.figures.idle_agents import compute_idle
from retries.models import Escalation, InsightFigure
from retries.notifications.rules.watches import note_agent
from tests.factories import NOW
from tests.retries.moves import attempt_of, claim, fail, make_task

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def test_each_moment_counts_once(agent: Agent) -> None:
    """Ten hours: two of work, then four with an open question, one of them at work, then idle."""
    Agent.objects.update(created_at=NOW - 10 * HOUR)
    start = NOW - 9 * HOUR
    make_task(agent, max_attempts=1, on_exhausted="escalate", now=start)
    fail(agent, attempt_of(claim(agent, now=start)), now=start + HOUR)
    asked = Escalation.objects.get()
    make_task(agent, now=start)
    second = attempt_of(claim(agent, now=start + 2 * HOUR))
    Attempt.objects.filter(pk=second).update(ended_at=start + 3 * HOUR, outcome="success")
    Escalation.objects.filter(pk=asked.pk).update(
        state="resolved", action="skip", closed_at=start + 5 * HOUR,
        answered_by_type="user", answered_by_id="7",
    )  # fmt: skip
    compute_idle(agent.project, now=NOW)
    figures = {row.days: row.data for row in InsightFigure.objects.filter(panel="idle")}
    assert set(figures) == {1, 7, 30}
    [row] = figures[1]["rows"]
    assert (row["known"], row["work"], row["person"], row["breaker"]) == (36000, 7200, 10800, 0)
    assert figures[1]["agents"] == 1 and list(figures[1]["duty"]) == ["7"]


def compute(agent: Agent, *, days: int = 1) -> dict[str, Any]:
    compute_idle(agent.project, now=NOW)
    data: dict[str, Any] = InsightFigure.objects.get(panel="idle", days=days).data
    return data


def work(agent: Agent, since: datetime, until: datetime) -> None:
    make_task(agent, now=since)
    in_process.report_success(attempt_of(claim(agent, now=since)), stamp=Stamp(SYSTEM, until))


def note(agent: Agent, kind: Kind, at: datetime) -> None:
    note_agent(kind, agent, at, {})


def test_an_agent_that_is_paused_does_not_wait_for_work(agent: Agent) -> None:
    """Ten hours: two paused, one of them at work, then two, then work, then a pause until now."""
    Agent.objects.update(created_at=NOW - 10 * HOUR)
    work(agent, NOW - 10 * HOUR, NOW - 9 * HOUR)
    note(agent, Kind.AGENT_RESUMED, NOW - 8 * HOUR)  # paused before the events that are read
    note(agent, Kind.AGENT_PAUSED, NOW - 7 * HOUR)
    note(agent, Kind.AGENT_RESUMED, NOW - 5 * HOUR)
    note(agent, Kind.AGENT_PAUSED, NOW - HOUR)
    [row] = compute(agent)["rows"]
    assert (row["known"], row["work"]) == (6 * 3600, 3600)


def test_an_agent_may_be_paused_for_longer_than_the_range(agent: Agent) -> None:
    Agent.objects.update(created_at=NOW - 10 * HOUR)
    work(agent, NOW - 10 * HOUR, NOW - 9 * HOUR)
    Agent.objects.update(paused=True)
    [row] = compute(agent)["rows"]
    assert (row["known"], row["work"]) == (3600, 3600)


def test_an_agent_that_is_switched_off_waits_for_nothing(agent: Agent) -> None:
    Agent.objects.update(created_at=NOW - 10 * HOUR)
    work(agent, NOW - 10 * HOUR, NOW - 9 * HOUR)
    note(agent, Kind.AGENT_SILENT, NOW - 8 * HOUR)
    note(agent, Kind.AGENT_HEARD, NOW - 6 * HOUR)
    Agent.objects.update(last_seen_at=NOW - 3 * HOUR)
    [row] = compute(agent)["rows"]
    assert row["known"] == 5 * 3600
    Agent.objects.update(last_seen_at=NOW - timedelta(seconds=5))
    [row] = compute(agent)["rows"]
    assert row["known"] == 8 * 3600


def test_a_person_is_on_duty_after_each_answer_and_view(agent: Agent) -> None:
    """Seven and eight answer, 7 twice; a view half an hour before adds a person without a name."""
    Agent.objects.update(created_at=NOW - 10 * HOUR)
    work(agent, NOW - 10 * HOUR, NOW - 6 * HOUR)
    start = NOW - 8 * HOUR
    for minutes, person in ((0, "7"), (10, "7"), (20, "8")):
        make_task(agent, max_attempts=1, on_exhausted="escalate", now=start)
        fail(agent, attempt_of(claim(agent, now=start)), now=start)
        Escalation.objects.filter(state="open").update(
            state="resolved", action="skip", opened_at=start - HOUR, seen_at=start - HOUR / 2,
            closed_at=start + timedelta(minutes=minutes), answered_by_type="user",
            answered_by_id=person,
        )  # fmt: skip
    data = compute(agent)
    began = int(start.timestamp())
    assert data["duty"] == {
        "": [[began - 1800, began]],
        "7": [[began, began + 2400]],
        "8": [[began + 1200, began + 3000]],
    }
    assert data["totals"]["attended"] == 1800 + 3000
