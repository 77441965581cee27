"""The layout of a task's timeline."""

from datetime import datetime, timedelta

import pytest

from dashboard.tasks.timeline import build_timeline
from ledger.models import Agent, Attempt, Event, Task
from tests.dashboard.worked import enqueued, failed

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
