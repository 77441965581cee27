"""The layout of a task's timeline."""

from datetime import UTC, datetime, timedelta

import pytest

from dashboard.tasks.timeline import build_timeline, list_moves, round_up
from ledger.models import Agent, Attempt, Event, Task
from ledger.states import TaskState
from tests.dashboard.worked import enqueued, failed, make_task

pytestmark = pytest.mark.django_db


SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


def test_bars_match_the_times(agent: Agent, now: datetime) -> None:
    start = now - 100 * SECOND
    id = enqueued(agent, now=start)
    failed(agent, id, now=start + 40 * SECOND, retry_after_s=0)
    task, events = Task.objects.get(), list(Event.objects.filter(subject_id=id).order_by("id"))
    drawn = build_timeline(task, events, list(Attempt.objects.all()), now=now)
    queued, backoff = drawn.waits
    assert (queued.x, round(queued.width)) == (0.0, 39)  # 40 of 102 s
    assert [round(drawn.attempts[0].x), round(drawn.attempts[0].width)] == [39, 10]
    assert round(backoff.x) == 49 and drawn.now and drawn.now.x == pytest.approx(98, abs=0.1)
    assert (drawn.working, drawn.waiting) == (10 * SECOND, 90 * SECOND)
    assert [tick.label for tick in drawn.ticks][:2] == ["0", "+30 s"]


@pytest.mark.parametrize("days", [0, 1, 3, 4000])
def test_timeline_of_any_length_has_few_ticks(agent: Agent, now: datetime, days: int) -> None:
    id = enqueued(agent, now=now - timedelta(days=days))
    events = list(Event.objects.filter(subject_id=id))
    drawn = build_timeline(Task.objects.get(), events, [], now=now)
    assert 0 < len(drawn.ticks) <= 8
    assert all(0 <= bar.x <= 100 and bar.x + bar.width <= 100.01 for bar in drawn.waits)


def test_long_waits_are_cut_so_that_attempts_can_be_seen(agent: Agent, now: datetime) -> None:
    """Two attempts of ten seconds, fourteen hours apart; by the clock they are slivers."""
    start = now - timedelta(hours=20)
    id = enqueued(agent, now=start)
    failed(agent, id, now=now - timedelta(hours=15), retry_after_s=0)
    failed(agent, id, now=now - timedelta(hours=1), retry_after_s=0)
    task, events = Task.objects.get(), list(Event.objects.filter(subject_id=id).order_by("id"))
    attempts = list(Attempt.objects.order_by("number"))
    clock = build_timeline(task, events, attempts, now=now)
    assert clock.cuts == [] and all(bar.width < 1 for bar in clock.attempts)
    work = build_timeline(task, events, attempts, now=now, by_work=True)
    first, second = work.attempts
    assert first.width == pytest.approx(second.width) and first.width > 30
    assert len(work.cuts) == 3  # before the first, between them, and until now
    assert first.x + first.width < work.cuts[1].x < second.x
    assert [bar.x for bar in work.waits] == sorted(bar.x for bar in work.waits)
    assert all(bar.x >= 0 and bar.x + bar.width <= 100.01 for bar in [*work.waits, *work.attempts])
    assert work.whole == clock.whole and 0 < len(work.ticks) <= 3


def test_a_short_wait_is_not_cut(agent: Agent, now: datetime) -> None:
    id = enqueued(agent, now=now - 12 * SECOND)
    failed(agent, id, now=now - 11 * SECOND, retry_after_s=0)
    task, events = Task.objects.get(), list(Event.objects.filter(subject_id=id).order_by("id"))
    drawn = build_timeline(task, events, list(Attempt.objects.all()), now=now, by_work=True)
    assert drawn.cuts == []
    assert [round(bar.width) for bar in drawn.attempts] == [83]  # ten of twelve seconds


def test_the_chart_of_a_task_that_runs_changes_a_percent_at_a_time() -> None:
    start = datetime(2026, 11, 20, tzinfo=UTC)
    for passed, rounded in ((0, 0), (1.2, 2), (90, 90), (90.5, 91), (3601, 3630), (3629, 3630)):
        end = round_up(start + timedelta(seconds=passed), start)
        assert (end - start).total_seconds() == rounded, passed


def test_the_time_in_the_current_state_is_kept_by_the_browser(agent: Agent, now: datetime) -> None:
    task = make_task(TaskState.RUNNING, agent=agent, now=now)
    runs, queued = list_moves(list(Event.objects.about(task.pk).order_by("id")))
    assert (runs.since, runs.stayed) == (now, None)
    assert (queued.since, queued.stayed) == (None, timedelta())
