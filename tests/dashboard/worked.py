"""Tasks that went the legal way into a state, for the pages that show them."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection

from ledger import tasks
from ledger.journal import SYSTEM, Actor, Stamp
from ledger.models import Agent, DeadLetter, Plan, Task
from ledger.states import TaskState
from ledger.tasks import Spec, enqueue_many
from ledger.tokens import TrustedCaller
from retries import claims, in_process
from retries.attempts import finishing
from retries.attempts.report_fields import Report
from retries.tasks import actions as people
from tests.factories import make_agent

SECOND = timedelta(seconds=1)
MARA = Actor("user", "1", "mara")


def enqueued(agent: Agent, title: str = "", *, now: datetime, **more: Any) -> UUID:
    return tasks.enqueue(
        agent, more.pop("type", "code"), more.pop("payload", {"n": 1}), title=title, now=now, **more
    )


def claimed(agent: Agent, id: UUID, *, now: datetime) -> UUID:
    """The id of the attempt."""
    found = claims.claim(TrustedCaller(SYSTEM, agent=agent), task=id, worker_id="w1", now=now)
    attempt: UUID = found.rows[0]["attempt_id"]
    return attempt


def failed(agent: Agent, id: UUID, *, now: datetime, **more: Any) -> None:
    """One more attempt, that fails after ten seconds."""
    attempt = claimed(agent, id, now=now)
    said = Report(status="failure", message=more.pop("message", "it broke"), **more)
    finishing.finish_attempt(
        attempt, said, caller=TrustedCaller(SYSTEM, agent=agent), now=now + 10 * SECOND
    )


def make_task(
    state: str = TaskState.QUEUED, title: str = "", *, agent: Agent, now: datetime, **more: Any
) -> Task:
    """A task that went into `state`; `why` tells its last failure."""
    why = more.pop("why", {})
    attempts = {TaskState.FAILED: 1, TaskState.ESCALATED: 1}.get(TaskState(state))
    if attempts:
        more.setdefault("max_attempts", attempts)
    if state == TaskState.ESCALATED:
        more.setdefault("on_exhausted", "escalate")
    if state == TaskState.BLOCKED:
        need = enqueued(agent, "What comes first", now=now)
        more.setdefault("needs", [need])
    id = enqueued(agent, title, now=now, **more)
    if state in (TaskState.RUNNING, TaskState.DONE):
        attempt = claimed(agent, id, now=now)
        if state == TaskState.DONE:
            in_process.report_success(
                attempt, {"branch": "x"}, stamp=Stamp(SYSTEM, now + 5 * SECOND)
            )
    if state == TaskState.RETRY:
        failed(agent, id, now=now, retry_after_s=600, **why)
    if state in (TaskState.FAILED, TaskState.ESCALATED):
        failed(agent, id, now=now, **why)
    if state == TaskState.SKIPPED:
        people.skip([id], stamp=Stamp(MARA, now))
    if state == TaskState.ABORTED:
        people.abort([id], stamp=Stamp(MARA, now))
    made = Task.objects.get(pk=id)
    assert made.state == state
    return made


def copy_task(count: int) -> None:
    """Insert copies of the only task, faster than its verbs would."""
    columns = [field.column for field in Task._meta.local_fields if field.column != "id"]
    names = ", ".join(f'"{column}"' for column in columns)
    with connection.cursor() as cursor:
        cursor.execute(
            f"insert into ledger_task (id, {names}) select gen_random_uuid(), {names}"
            f" from ledger_task, generate_series(1, {count})"
        )


def buried(title: str = "", *, agent: Agent, now: datetime, **more: Any) -> DeadLetter:
    """The dead letter of a task that failed for good, in a way that no breaker hears of."""
    quiet = {"type": "verification_failed", "message": more.pop("error", "it broke")}
    why = quiet | more.pop("why", {})
    task = make_task(TaskState.FAILED, title, agent=agent, now=now, why=why, **more)
    return DeadLetter.objects.select_related("task").get(task=task)


def make_plan(
    ref: str, tasks: Sequence[tuple[str, Sequence[int]]] = (), *, now: datetime, **more: Any
) -> tuple[Plan, list[UUID]]:
    """A plan and the ids of its tasks, each given as its title and the numbers of what it needs."""
    agent = more.pop("agent", None) or make_agent()
    plan = Plan.objects.create(
        **{"project": agent.project, "title": "", "source": {}, "content_hash": ""} | more,
        ref=ref,
        created_by_type="token",
        created_by_name="architect",
        created_at=now,
        updated_at=now,
    )
    specs = [
        Spec(
            type="code",
            title=title,
            after=[number - 1 for number in needs],
            plan_id=plan.pk,
            ref=f"{ref}:task-{n}",
            run=plan.run,
            on_exhausted="escalate",
            max_attempts=1,
        )
        for n, (title, needs) in enumerate(tasks, start=1)
    ]
    made = enqueue_many([(agent, spec) for spec in specs], stamp=Stamp(SYSTEM, now))
    return plan, [row["id"] for row in made]
