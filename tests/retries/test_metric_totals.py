"""What metrics count of the journal: each event once, also while others write and count."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Event
from ledger.tasks.spec import Backoff
from ledger.tokens import TrustedCaller
from retries import breaker_actions
from retries.attempts import finishing
from retries.attempts.report_fields import Report
from retries.journal_readers import metric_totals
from retries.journal_readers import positions as stream_position
from retries.models import MetricTotal
from tests.elsewhere import at_once
from tests.factories import NOW
from tests.retries.moves import attempt_of, claim, fail, make_task
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.django_db(transaction=True)
LATER = NOW + timedelta(seconds=90)


def counts(metric: str) -> dict[tuple[str, ...], int]:
    """Return the counts of a metric by its labels without the agent, in the order of their names."""
    found: dict[tuple[str, ...], int] = {}
    for row in MetricTotal.objects.filter(metric=metric):
        labels = tuple(value for name, value in sorted(row.labels.items()) if name != "agent")
        found[labels] = found.get(labels, 0) + row.count
    return found


def succeed(agent: Agent, id: Any, *, now: Any) -> None:
    caller = TrustedCaller(SYSTEM, agent=agent)
    finishing.finish_attempt(id, Report(status="success"), caller=caller, now=now)


def run_story(agent: Agent) -> None:
    """One task fails and then succeeds, one fails for good; each attempt takes 90 seconds."""
    make_task(agent, max_attempts=2, backoff=Backoff(base_delay_ms=0))
    fail(agent, attempt_of(claim(agent)), now=LATER)
    succeed(agent, attempt_of(claim(agent, now=LATER)), now=LATER + timedelta(seconds=90))
    make_task(agent, max_attempts=1)
    fail(agent, attempt_of(claim(agent)), now=LATER)


def test_every_move_attempt_and_decision_is_counted_once(agent: Agent) -> None:
    run_story(agent)
    for _ in range(2):  # the second run finds nothing new
        metric_totals.count_events(now=NOW)
        assert counts("tenfour_task_transitions") == {
            ("none", "queued"): 2,
            ("queued", "running"): 2,
            ("retry", "running"): 1,
            ("running", "retry"): 1,
            ("running", "done"): 1,
            ("running", "failed"): 1,
        }
        assert counts("tenfour_attempts") == {("execution_error", "failure"): 2, ("", "success"): 1}
        assert counts("tenfour_decisions")["done", "reported"] == 1
        assert counts("tenfour_task_attempts") == {("done",): 1, ("failed",): 1}
    [took] = MetricTotal.objects.filter(
        metric="tenfour_attempt_duration_seconds", labels__outcome="failure"
    )
    assert (took.bucket, took.count, took.sum) == (300, 2, 180)


def test_totals_stay_when_events_are_read_in_small_batches(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_position, "BATCH_SIZE", 2)
    run_story(agent)
    metric_totals.count_events(now=NOW)
    events = Event.objects.filter(subject_type="task", to_state__isnull=False).count()
    assert sum(counts("tenfour_task_transitions").values()) == events == 8


def test_keeping_a_breaker_open_is_no_transition(agent: Agent) -> None:
    stamp = Stamp(SYSTEM, NOW)
    breaker_actions.trip([agent], reason="Look", stamp=stamp)
    breaker_actions.keep_open([agent], stamp=stamp)
    breaker_actions.reset([agent], stamp=stamp)
    metric_totals.count_events(now=NOW)
    assert counts("tenfour_breaker_transitions") == {("opened",): 1, ("closed",): 1}


def test_two_processes_do_not_count_an_event_twice(agent: Agent) -> None:
    run_story(agent)
    assert not [x for x in at_once(4, lambda n: metric_totals.count_events(now=NOW)) if
                isinstance(x, Exception)]  # fmt: skip
    assert sum(counts("tenfour_task_transitions").values()) == 8


def test_an_event_that_commits_late_is_counted(agent: Agent, elsewhere: Any) -> None:
    """Its transaction is older than one that is already counted."""
    with transaction.atomic():
        make_task(agent)
        elsewhere(lambda: make_task(agent)).result(PATIENCE_S)
        elsewhere(lambda: metric_totals.count_events(now=NOW)).result(PATIENCE_S)
        assert sum(counts("tenfour_task_transitions").values()) == 0
    metric_totals.count_events(now=NOW)
    assert counts("tenfour_task_transitions") == {("none", "queued"): 2}
