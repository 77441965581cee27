"""Which tasks are stuck because of a pattern, and how PostgreSQL finds them."""

from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from ledger.journal import Stamp
from ledger.models import Agent, DeadLetter, Failure, Task
from ledger.states import TaskState
from retries import deadletters
from retries.failures import stuck_tasks as found
from retries.failures.stuck_tasks import FEW, StuckTasks, count_stuck_tasks, stuck_tasks
from retries.models import Escalation, FailurePattern
from tests.factories import NOW, make_agent, make_project
from tests.retries.failures.test_grouping import HOUR, MARA
from tests.retries.moves import attempt_of, claim, fail, make_task
from tests.statement_plans import plan_of, prepared

pytestmark = pytest.mark.django_db

DISK, NETWORK = "disk full", "no network"
# the smaller set first: the failures of the patterns, or the tasks that are stuck
BOTH_WAYS = pytest.mark.parametrize("few", [FEW, 0])


def fail_each(messages: list[str], **more: Any) -> UUID:
    """A task that has failed with these messages, of an agent of its own, whose breaker is closed."""
    agent = make_agent(f"agent-{Agent.objects.count()}", **more.pop("of", {}))
    task = make_task(agent, **more)
    for number, message in enumerate(messages):
        now = NOW + number * HOUR
        fail(agent, attempt_of(claim(agent, now=now)), now=now, message=message)
    return task


def is_stuck(task: Task, patterns: list[UUID]) -> bool:
    """The rule for one task, row by row."""
    last = Failure.objects.filter(task=task).order_by("-id").first()
    if last is None or last.grouped.pattern_id not in patterns or task.replaced_by_id:
        return False
    match task.state:
        case TaskState.RETRY:
            return True
        case TaskState.FAILED:
            return DeadLetter.objects.open().filter(task=task).exists()
        case TaskState.ESCALATED:
            return found.retryable_escalations().filter(task=task).exists()
    return False


@pytest.fixture
def world(agent: Agent) -> list[UUID]:
    """Tasks of two patterns in every state that a failed task can be in."""
    every = DeadLetter.objects.all()
    for message, other in ((DISK, NETWORK), (NETWORK, DISK)):
        _, dismissed, replayed = (
            DeadLetter.objects.get(task=fail_each([message], max_attempts=1)) for _ in range(3)
        )
        deadletters.dismiss([dismissed.pk], among=every, stamp=Stamp(MARA, NOW))
        deadletters.replay([replayed.pk], among=every, stamp=Stamp(MARA, NOW))
        fail_each([message], max_attempts=1, on_exhausted="escalate")
        unsure = fail_each([message], max_attempts=1, on_exhausted="escalate")
        Escalation.objects.filter(task=unsure).update(reason="needs_confirmation")
        fail_each([other, message, message], max_attempts=4)
        done = fail_each([message], max_attempts=2)
        Task.objects.filter(pk=done).update(state="done", completed_at=NOW)
        restarted = fail_each([message], max_attempts=2)
        Task.objects.filter(pk=restarted).update(replaced_by=make_task(agent))
        there = {"project": make_project(f"with {message}")}
        fail_each([message], max_attempts=1, of=there)
    mine = FailurePattern.objects.filter(project=agent.project)
    return list(mine.order_by("template").values_list("pk", flat=True))


@BOTH_WAYS
def test_both_ways_find_the_same_tasks(world: list[UUID], few: int) -> None:
    sizes = []
    for patterns in ([world[0]], [world[1]], world, []):
        expected = {task.pk for task in Task.objects.order_by("id") if is_stuck(task, patterns)}
        rows = list(stuck_tasks(patterns, few=few).values_list("pk", flat=True))
        assert rows == sorted(expected)
        sizes.append(len(rows))
    assert sizes == [3, 3, 6, 0]


@BOTH_WAYS
def test_the_tasks_can_be_filtered_like_others(agent: Agent, world: list[UUID], few: int) -> None:
    rows = stuck_tasks(world, few=few)
    assert {task.state for task in rows[:2]} <= {*TaskState}
    assert not rows.filter(project=make_project("empty")).exists()
    waiting = rows.filter(state=TaskState.RETRY)
    # as a part of another query, in which the table has another name
    assert Task.objects.filter(pk__in=waiting.values("pk")).count() == 2
    assert DeadLetter.objects.filter(task__in=rows.values("pk")).count() == 2


def test_they_are_counted_by_state(world: list[UUID]) -> None:
    assert [count_stuck_tasks(id) for id in world] == [StuckTasks(1, 1, 1)] * 2
    assert count_stuck_tasks(world[0]).total == 3


@BOTH_WAYS
def test_every_row_is_looked_up_by_an_index(world: list[UUID], few: int) -> None:
    """No lookup may become a join that reads a whole table, whatever the statistics are."""
    statement = f"select count(*) from ({found.build_statement('%(patterns)s', few=few)}) stuck"
    with prepared("ledger_failure") as cursor:
        cursor.execute("set local enable_nestloop = off")
        check_plan(plan_of(cursor, statement, {"patterns": world}))


def test_the_tasks_of_a_list_are_looked_up_by_their_ids(world: list[UUID]) -> None:
    query, params = stuck_tasks(world).query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute("set local enable_seqscan = off")
        cursor.execute("set local enable_nestloop = off")
        cursor.execute(f"explain {query}", params)
        plan = [row[0] for row in cursor.fetchall()]
    check_plan(plan)
    assert any("Index Cond: (id = ANY ((InitPlan" in line for line in plan), plan


def check_plan(plan: list[str]) -> None:
    text = "\n".join(plan)
    assert "Seq Scan" not in text and "hashed SubPlan" not in text, text
    assert "Hash Join" not in text and "Merge Join" not in text, text
    for table in ("ledger_failure", "retries_grouped", "ledger_task", "ledger_deadletter"):
        scans = [n for n, line in enumerate(plan) if f" on {table}" in line]
        assert scans, text
