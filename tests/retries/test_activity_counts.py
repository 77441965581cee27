"""What is counted in each half hour and day: equal to the rows themselves, once, and again."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command
from django.db.models import Sum

from ledger import instructions
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Attempt, Instruction, Task
from ledger.tasks.spec import Backoff
from retries.escalations import answering
from retries.escalations.choices import Choice
from retries.journal_readers import counts as activity_counts
from retries.journal_readers import positions as stream_position
from retries.journal_readers import rebuild as activity_rebuild
from retries.journal_readers.horizon import BEGINNING, DAY, midnight_of
from retries.models import ActivityCount, DurationCount, Escalation
from retries.retention import instruction_rows, task_rows
from retries.states import Answer
from tests.elsewhere import at_once
from tests.factories import NOW, make_agent, pull, send, tick
from tests.retries.moves import attempt_of, claim, fail, make_task
from tests.retries.test_metric_totals import LATER, run_story

pytestmark = pytest.mark.django_db(transaction=True)
SUMS = tuple(activity_counts.SUMS)


def totals(minutes: int, **of: Any) -> dict[str, float]:
    found = ActivityCount.objects.filter(minutes=minutes, **of).aggregate(
        **{f"{name}_": Sum(name) for name in SUMS}
    )
    return {name: found[f"{name}_"] for name in SUMS}


def make_history(agent: Agent) -> None:
    """Two days: tasks of two agents, and instructions that are acknowledged, late or not at all."""
    run_story(agent)
    other = make_agent("other")
    make_task(other, max_attempts=3, backoff=Backoff(base_delay_ms=0))
    for day in range(2):
        at = NOW + timedelta(days=day, minutes=40)
        fail(other, attempt_of(claim(other, now=at)), now=at + timedelta(seconds=30))
    for number in range(3):
        id = send(agent, f"Do {number}", now=NOW, max_retries=1 if number else 0)
        pull(agent, now=NOW)
        if number == 1:
            tick(NOW + timedelta(minutes=1))
            pull(agent, now=NOW + timedelta(minutes=2))
        if number:
            instructions.acknowledge_instruction(id, now=NOW + timedelta(minutes=3))
    tick(NOW + timedelta(minutes=6))


def read_all() -> list[Any]:
    return [
        *ActivityCount.objects.order_by("minutes", "at", "agent").values_list(),
        *DurationCount.objects.order_by(
            "minutes", "at", "project", "measure", "step"
        ).values_list(),
    ]


def test_counts_equal_the_rows(agent: Agent) -> None:
    make_history(agent)
    for _ in range(2):  # the second run finds nothing new
        activity_counts.count_activity(now=NOW)
        ended = Attempt.objects.exclude(outcome=None)
        done = Task.objects.filter(state="done")
        tracked = Instruction.objects.filter(tracked=True)
        for minutes in (30, 1440):
            assert totals(minutes) == {
                "attempts": ended.count(),
                "attempts_failed": ended.filter(outcome="failure").count(),
                "busy_s": sum((each.ended_at - each.started_at).total_seconds() for each in ended),
                "tasks_done": done.count(),
                "tasks_done_first": done.filter(attempts=1).count(),
                "tasks_failed": Task.objects.filter(state="failed").count(),
                "tasks_escalated": Escalation.objects.filter(task__isnull=False).count(),
                "finished_attempts": sum(
                    Task.objects.filter(state__in=("done", "failed")).values_list(
                        "attempts", flat=True
                    )
                ),
                "sent": tracked.count(),
                "acknowledged_first": tracked.filter(state="acknowledged", retry_count=0).count(),
                "acknowledged_later": tracked.filter(
                    state="acknowledged", retry_count__gt=0
                ).count(),
                "given_up": tracked.filter(state="failed").count(),
            }
        assert totals(30)["attempts"] == 5 and totals(30)["given_up"] == 1


def test_a_slot_begins_at_the_half_hour_or_at_midnight(agent: Agent) -> None:
    make_history(agent)
    activity_counts.count_activity(now=NOW)
    other = ActivityCount.objects.filter(agent__name="other", attempts__gt=0)
    first = NOW + timedelta(minutes=40)
    start = first.replace(minute=first.minute // 30 * 30, second=0, microsecond=0)
    assert [row.at for row in other.filter(minutes=30).order_by("at")] == [
        start,
        start + timedelta(days=1),
    ]
    midnight = first.replace(hour=0, minute=0, second=0, microsecond=0)
    assert [row.at for row in other.filter(minutes=1440).order_by("at")] == [
        midnight,
        midnight + timedelta(days=1),
    ]


def test_the_journal_counted_again_in_small_runs_is_the_same(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_history(agent)
    activity_counts.count_activity(now=NOW)
    before = read_all()
    monkeypatch.setattr(activity_rebuild, "RUN_LENGTH", 3)
    monkeypatch.setattr(stream_position, "BATCH_SIZE", 3)
    ActivityCount.objects.filter(minutes=30).update(attempts=99)
    call_command("rebuild_activity", verbosity=0)
    assert read_all() == before


def test_what_happens_during_a_rebuild_is_counted_once(agent: Agent) -> None:
    make_history(agent)
    rebuild = activity_rebuild.begin_rebuild(since=BEGINNING, now=NOW)
    make_task(agent)
    fail(agent, attempt_of(claim(agent)), now=LATER)
    activity_counts.count_activity(now=NOW)  # the clock
    assert totals(30)["attempts"] == 1
    assert activity_rebuild.count_run(rebuild, after=activity_rebuild.FIRST) == rebuild.end
    assert activity_rebuild.count_run(rebuild, after=rebuild.end) == ""
    assert totals(30)["attempts"] == Attempt.objects.exclude(outcome=None).count() == 6
    after = read_all()
    activity_rebuild.rebuild_activity(now=NOW)
    assert read_all() == after


def test_a_second_rebuild_ends_the_first(agent: Agent) -> None:
    make_history(agent)
    first = activity_rebuild.begin_rebuild(since=BEGINNING, now=NOW)
    activity_rebuild.rebuild_activity(now=NOW)
    before = read_all()
    with pytest.raises(activity_rebuild.RebuildReplaced):
        activity_rebuild.count_run(first, after=activity_rebuild.FIRST)
    assert read_all() == before


def test_a_rebuild_keeps_the_days_with_rows_that_were_deleted(
    agent: Agent, settings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(day: int, *, at: timedelta = timedelta(minutes=5)) -> UUID:
        id = make_task(agent, max_attempts=1, on_exhausted="dead_letter")
        moment = NOW + timedelta(days=day) + at
        fail(agent, attempt_of(claim(agent, task=id, now=moment)), now=moment + at)
        return id

    gone, _, _ = work(0), work(1), work(2)
    asked = send(agent, "Do it", now=NOW + timedelta(days=1))
    pull(agent, now=NOW + timedelta(days=1))
    instructions.acknowledge_instruction(asked, now=NOW + timedelta(days=1, minutes=1))
    activity_counts.count_activity(now=NOW)
    before = read_all()
    task_rows.delete_tasks([gone])
    instruction_rows.delete_instructions([asked])
    assert activity_rebuild.rebuild_activity(now=NOW).since == midnight_of(NOW) + 2 * DAY
    assert read_all() == before
    # of a kept day, what the clock has not counted yet is new
    work(1)
    ActivityCount.objects.filter(at__gte=midnight_of(NOW) + 2 * DAY).update(attempts=99)
    call_command("rebuild_activity")
    assert "Kept the counts of the days before" in capsys.readouterr().out
    assert totals(1440)["attempts"] == totals(30)["attempts"] == 4
    assert totals(1440, at=midnight_of(NOW) + DAY)["attempts"] == 2
    assert totals(1440, at=midnight_of(NOW) + 2 * DAY)["attempts"] == 1
    # rows that retention may delete meanwhile are not counted again either
    settings.TENFOUR = settings.TENFOUR | {"TASK_DAYS": 30}
    ActivityCount.objects.update(attempts=7)
    activity_rebuild.rebuild_activity(now=NOW + timedelta(days=32))
    assert set(ActivityCount.objects.values_list("attempts", flat=True)) == {7}


def test_a_rebuild_that_was_interrupted_loses_nothing(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step is one transaction, so a kill leaves what the steps before have written."""

    def work(day: int) -> None:
        id, moment = make_task(agent), NOW + timedelta(days=day)
        fail(agent, attempt_of(claim(agent, task=id, now=moment)), now=moment)

    for day in (0, 1, 2):
        work(day)
    activity_counts.count_activity(now=NOW)
    for day in (0, 1, 2):  # not counted yet, of days that are kept and of others
        work(day)
    since = midnight_of(NOW) + 2 * DAY
    monkeypatch.setattr(activity_rebuild, "find_first_whole_day", lambda *, now: since)
    monkeypatch.setattr(activity_rebuild, "RUN_LENGTH", 5)
    interrupted = activity_rebuild.begin_rebuild(since=since, now=NOW)
    assert activity_rebuild.count_run(interrupted, after=activity_rebuild.FIRST)
    activity_rebuild.rebuild_activity(now=NOW)
    for minutes in (30, 1440):
        assert totals(minutes)["attempts"] == Attempt.objects.exclude(outcome=None).count() == 6
    days = ActivityCount.objects.filter(minutes=1440).order_by("at")
    assert list(days.values_list("attempts", flat=True)) == [2, 2, 2]


def test_rebuilds_at_once_count_each_event_once(agent: Agent) -> None:
    make_history(agent)
    found = at_once(4, lambda n: activity_rebuild.rebuild_activity(now=NOW))
    errors = [each for each in found if isinstance(each, Exception)]
    assert all(isinstance(each, activity_rebuild.RebuildReplaced) for each in errors)
    assert len(errors) < 4
    assert totals(30)["attempts"] == Attempt.objects.exclude(outcome=None).count()


def test_four_clocks_count_each_event_once(agent: Agent) -> None:
    make_history(agent)
    found = at_once(4, lambda n: activity_counts.count_activity(now=NOW))
    assert not [each for each in found if isinstance(each, Exception)]
    assert totals(30)["attempts"] == Attempt.objects.exclude(outcome=None).count()


def test_durations_are_counted_in_steps_of_five_percent(agent: Agent) -> None:
    make_task(agent, max_attempts=1, on_exhausted="escalate")
    fail(agent, attempt_of(claim(agent)), now=LATER)
    escalation = Escalation.objects.get()
    answering.answer(
        escalation.pk,
        Choice(Answer.SKIP),
        among=Escalation.objects.all(),
        stamp=Stamp(SYSTEM, escalation.opened_at + timedelta(seconds=600)),
        channel="page",
    )
    id = send(agent, "Do it", now=NOW)
    pull(agent, now=NOW)
    instructions.acknowledge_instruction(id, now=NOW + timedelta(seconds=100))
    activity_counts.count_activity(now=NOW)
    rows = DurationCount.objects.filter(minutes=30)
    assert sorted((row.measure, row.count) for row in rows) == [("ack", 1), ("answer", 1)]
    for row in rows:
        took = {"ack": 100, "answer": 600}[row.measure]
        assert abs(activity_counts.STEP**row.step - took) < took * 0.05
