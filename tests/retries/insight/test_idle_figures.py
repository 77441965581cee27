"""What the time of agents went to: each moment counts once."""

from datetime import timedelta

import pytest

from ledger.models import Agent, Attempt
from retries.insight.idle_figures import compute_idle
from retries.models import Escalation, InsightFigure
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
    assert figures[1]["agents"] == figures[1]["people"] == 1
