"""The life of an operation: undone, stopped, refused a right, and each row done exactly once."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.utils import timezone

from ledger.errors import Invalid, InvalidTransition, NotFound
from ledger.journal import Stamp, person
from ledger.models import Agent, Event, Task
from ledger.states import TaskState
from retries import sweeps
from retries.models import Operation
from retries.operations import running, starting
from retries.operations.ending import stop_operation, undo_operation
from retries.operations.running import LEASE, list_due, run_batch, run_operation, take
from retries.tasks import actions as task_actions
from retries.verbs.verb import Left, Options
from tests.dashboard.worked import enqueued, make_task
from tests.factories import make_agent, make_project
from tests.retries.operations.worlds import (
    LATER,
    list_kinds,
    list_refusals,
    make_person,
    run,
    start,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def now() -> datetime:
    return timezone.now() - timedelta(minutes=5)


def stamp(now: datetime, name: str = "priya") -> Stamp:
    by = User.objects.filter(username=name).first() or make_person(name)
    return Stamp(person(by), now)


def queue(agent: Agent, number: int, *, now: datetime) -> None:
    for n in range(number):
        enqueued(agent, f"Task {n}", now=now)


def test_an_operation_waits_for_its_undo_and_changes_nothing_when_undone(
    agent: Agent, now: datetime
) -> None:
    queue(agent, 3, now=now)
    operation = start("task.abort", Task.objects.all(), now=now)
    assert list_due(now) == [] and not run_operation(operation.pk, now=now)
    undo_operation(operation.pk, among=Operation.objects.all(), stamp=stamp(now))
    assert list_due(now + LATER) == [] and not run_operation(operation.pk, now=now + LATER)
    operation.refresh_from_db()
    assert (operation.state, operation.ended_by_name, operation.left) == ("undone", "priya", 3)
    assert set(Task.objects.values_list("state", flat=True)) == {"queued"}
    assert list_kinds(operation.pk) == ["operation.started", "operation.undone"]
    with pytest.raises(InvalidTransition):
        stop_operation(operation.pk, among=Operation.objects.all(), stamp=stamp(now))
    with pytest.raises(NotFound):
        undo_operation(operation.pk, among=Operation.objects.none(), stamp=stamp(now))


def test_a_stopped_operation_leaves_the_rest_and_cannot_be_undone(
    agent: Agent, now: datetime
) -> None:
    queue(agent, 30, now=now)
    operation = start("task.abort", Task.objects.all(), now=now)
    assert list_due(now + LATER) == [operation.pk]
    assert take(operation.pk, now=now + LATER) and run_batch(operation.pk, now=now + LATER)
    assert list_due(now + LATER) == []  # a worker holds it
    with pytest.raises(InvalidTransition, match="running"):
        undo_operation(operation.pk, among=Operation.objects.all(), stamp=stamp(now))
    stop_operation(operation.pk, among=Operation.objects.all(), stamp=stamp(now))
    assert not run_batch(operation.pk, now=now + LATER)
    operation.refresh_from_db()
    assert (operation.state, operation.changed, operation.left) == ("stopped", 25, 5)
    assert Task.objects.filter(state="queued").count() == 5


def test_a_row_that_moved_meanwhile_is_left_and_says_why(agent: Agent, now: datetime) -> None:
    queue(agent, 4, now=now)
    ids = list(Task.objects.order_by("id").values_list("pk", flat=True))
    operation = start("task.abort", Task.objects.filter(pk__in=ids), now=now)
    enqueued(agent, "Later", now=now)  # it is not part of it
    task_actions.skip([ids[2]], stamp=stamp(now))
    run(operation, now=now)
    assert (operation.total, operation.changed, operation.refused) == (4, 3, 1)
    assert list_refusals(operation) == [(ids[2], "State is now “skipped”")]
    assert Task.objects.get(title="Later").state == "queued"


def test_one_row_that_fails_leaves_the_others_of_its_batch(
    agent: Agent, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A defect in a verb must not stop an operation, nor change a row twice."""
    queue(agent, 5, now=now)
    ids = list(Task.objects.order_by("id").values_list("pk", flat=True))
    operation = start("task.abort", Task.objects.all(), now=now)
    verb = running.find_verb("task.abort")

    def fail_at_third(some: list[Any], options: Any, stamp: Stamp) -> Any:
        left = verb.apply(some, options, stamp)
        if ids[2] in some:
            raise RuntimeError("a defect")
        return left

    monkeypatch.setattr(running, "find_verb", lambda name: replace(verb, apply=fail_at_third))
    run(operation, now=now)
    assert (operation.changed, operation.refused) == (4, 1)
    assert list_refusals(operation) == [(ids[2], "Internal error")]
    aborted = Event.objects.filter(kind="task.aborted")
    assert sorted(aborted.values_list("subject_id", flat=True)) == sorted({*ids} - {ids[2]})


def test_a_row_that_always_takes_too_long_is_left_after_a_few_tries(
    agent: Agent, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue(agent, 3, now=now)
    slow = Task.objects.order_by("id")[1].pk
    tries = []

    def apply(ids: list[UUID], options: Options, stamp: Stamp) -> dict[UUID, Left]:
        if slow in ids:
            tries.append(len(ids))
            with connection.cursor() as cursor:
                cursor.execute("set local statement_timeout = 20")
                cursor.execute("select pg_sleep(60)")
        return verb.apply(ids, options, stamp)

    verb = running.find_verb("task.abort")
    monkeypatch.setattr(running, "find_verb", lambda name: replace(verb, apply=apply))
    done = run(start("task.abort", Task.objects.all(), now=now), now=now)
    assert (done.state, done.changed, done.refused) == ("done", 2, 1)
    assert list_refusals(done) == [(slow, "Took too long")]
    assert tries == [3, 1, 1]


def test_a_person_who_lost_the_right_stops_what_they_started(agent: Agent, now: datetime) -> None:
    queue(agent, 2, now=now)
    mara = make_person("mara")
    operation = start("task.abort", Task.objects.all(), by=mara, now=now)
    mara.is_active = False
    mara.save()
    run(operation, now=now)
    assert (operation.state, operation.changed) == ("stopped", 0)
    assert operation.ended_because == "mara may no longer do this."
    assert list_kinds(operation.pk) == ["operation.started", "operation.stopped"]


def test_another_worker_goes_on_when_the_lease_is_over(agent: Agent, now: datetime) -> None:
    queue(agent, 30, now=now)
    operation = start("task.abort", Task.objects.all(), now=now)
    at = now + LATER
    assert take(operation.pk, now=at) and run_batch(operation.pk, now=at)  # and then it dies
    assert not run_operation(operation.pk, now=at + LEASE / 2)
    assert list_due(at + LEASE) == [operation.pk]
    assert sweeps.run("operations", now=at + LEASE) == {"due": 1}
    run(operation, now=at + LEASE)
    assert (operation.state, operation.changed, operation.refused) == ("done", 30, 0)
    assert Event.objects.filter(kind="task.aborted").count() == 30
    assert list_kinds(operation.pk) == [
        "operation.started",
        "operation.resumed",
        "operation.completed",
    ]


def test_an_operation_over_projects_is_in_the_journal_of_each(now: datetime) -> None:
    agents = [make_agent("coder", project=make_project(name)) for name in ("a", "b")]
    for agent in agents:
        enqueued(agent, "One", now=now)
    operation = run(start("task.abort", Task.objects.all(), now=now), now=now)
    projects = Event.objects.filter(kind="operation.completed").values_list("project_id", flat=True)
    assert sorted(projects) == sorted(agent.project_id for agent in agents)
    assert operation.changed == 2


def test_too_many_rows_are_refused(
    agent: Agent, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue(agent, 3, now=now)
    monkeypatch.setattr(starting, "MOST", 2)
    with pytest.raises(Invalid, match="Narrow the filter"):
        start("task.abort", Task.objects.all(), now=now)
    assert not Operation.objects.exists()


def test_a_secret_in_a_reason_is_not_stored(agent: Agent, now: datetime) -> None:
    make_task(TaskState.QUEUED, agent=agent, now=now)
    secret = "ghp_" + "a1B2" * 9
    operation = start("task.abort", Task.objects.all(), reason=f"used {secret}", now=now)
    assert secret not in operation.reason and operation.reason.startswith("used ")
    assert secret not in str(Event.objects.get(kind="operation.started").data)
