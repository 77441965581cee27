"""Restarts of plans: new tasks take the places of those that are not done."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from ledger.database import sql
from ledger.database.sql import Row
from ledger.errors import InvalidTransition, NotFound
from ledger.journal import Kind, Stamp
from ledger.models import DeadLetter, MissingNeed, Need, Plan, PlanState, Task
from ledger.plans.editing import record_event, update_columns
from ledger.states import FINAL, TaskState
from ledger.tasks import enqueue_many
from ledger.tasks.replacing import take_places
from ledger.tasks.spec import spec_of_task
from retries import deadletters
from retries.tasks import checkpoints


@sql.atomic
def restart(plan_id: UUID, *, carry_over: datetime | None = None, stamp: Stamp) -> Plan:
    """Run the tasks of an aborted or completed plan again that are not done.

    New tasks take the old ones' places, and open dead letters count as replayed by them. Counters
    start at 0, but with `carry_over` a task that was started at or after that time keeps its
    attempts and failures. Raises InvalidTransition.
    """
    plan = Plan.objects.lock([plan_id]).first()
    if plan is None:
        raise NotFound(f"There is no plan {plan_id}.")
    former = plan.state
    # Lock dead letters before their tasks, as a dismissal does.
    letters = DeadLetter.objects.open().filter(task__plan=plan).order_by("pk")
    list(letters.select_for_update(of=("self",)).values_list("pk"))
    current = Task.objects.current().filter(plan=plan).order_by("pk")
    rows = list(
        current.select_for_update(of=("self",), no_key=True).select_related("agent", "pool")
    )
    old = [task for task in rows if task.state != TaskState.DONE]
    require_over(plan, old)
    run = plan.run + 1
    new = enqueue_again(plan, old, run=run, stamp=stamp)
    replace_tasks(old, new, stamp=stamp)
    carried = carry_over_attempts(old, new, since=carry_over)
    update_columns(plan, run=run, aborted_at=None, completed_at=None, paused_at=None, now=stamp.at)
    record_event(
        plan,
        Kind.PLAN_RESTARTED,
        stamp=stamp,
        from_state=former,
        to_state=plan.state,
        data={"tasks": len(new), "carried": carried},
    )
    asking = [row for row in new.values() if checkpoints.waits_for_answer(row)]
    checkpoints.open_questions(asking, stamp=stamp)
    return plan


def require_over(plan: Plan, rest: Sequence[Task]) -> None:
    under_way = [task for task in rest if task.state not in FINAL]
    if plan.state not in (PlanState.ABORTED, PlanState.COMPLETED):
        raise InvalidTransition(
            f"Plan {plan.ref} is {plan.state}. Abort it first; then it can be restarted.",
            current=plan.state,
            allowed=[],
        )
    if under_way:
        raise InvalidTransition(
            f"{under_way[0].ref} is still {under_way[0].state}: it ends when its agent reports or "
            "its lease runs out.",
            current=plan.state,
            allowed=[],
            tasks=[task.ref for task in under_way],
        )
    if not rest:
        raise InvalidTransition(
            f"Every task of plan {plan.ref} is done: there is nothing to run again.",
            current=plan.state,
            allowed=[],
        )


def enqueue_again(plan: Plan, old: Sequence[Task], *, run: int, stamp: Stamp) -> dict[UUID, Row]:
    """Enqueue the old tasks again with the same needs; return the new rows by the old ids."""
    places = {task.pk: n for n, task in enumerate(old)}
    needed: dict[UUID, list[UUID]] = {}
    for each in Need.objects.filter(task__in=places).order_by("need_id"):
        needed.setdefault(each.task_id, []).append(each.need_id)
    missing: dict[UUID, list[MissingNeed]] = {}
    for wait in MissingNeed.objects.filter(task__in=places):
        missing.setdefault(wait.task_id, []).append(wait)
    specs = [
        (
            task.sent_to,
            spec_of_task(
                task,
                run=run,
                needs=[need for need in needed.get(task.pk, ()) if need not in places],
                after=[places[need] for need in needed.get(task.pk, ()) if need in places],
                missing=len(missing.get(task.pk, ())),
            ),
        )
        for task in old
    ]
    rows = enqueue_many(specs, stamp=stamp)
    new = {task.pk: row for task, row in zip(old, rows, strict=True)}
    MissingNeed.objects.bulk_create(
        MissingNeed(project_id=plan.project_id, task_id=new[id]["id"], ref=wait.ref)
        for id, waits in missing.items()
        for wait in waits
    )
    return new


def replace_tasks(old: Sequence[Task], new: Mapping[UUID, Row], *, stamp: Stamp) -> None:
    take_places({task.pk: new[task.pk]["id"] for task in old}, now=stamp.at)
    for letter in DeadLetter.objects.open().filter(task__in=old).order_by("pk"):
        id = new[letter.task_id]["id"]
        deadletters.close(letter, "replayed", stamp=stamp, replayed_as_id=id)
        deadletters.record_event(letter, Kind.TASK_REPLAYED, stamp=stamp)


def carry_over_attempts(
    old: Sequence[Task], new: Mapping[UUID, Row], *, since: datetime | None
) -> int:
    """Let tasks that were started since then keep their attempts; return how many do."""
    # A task without attempts left gets one more.
    started = [task for task in old if since and task.started_at and task.started_at >= since]
    for task in started:
        row = new[task.pk]
        kept = {
            "retry_count": task.retry_count,
            "attempts": task.attempts,
            "attempt_limit": max(task.attempt_limit, task.attempts + 1),
            "error": task.error,
            "started_at": task.started_at,
        }
        Task.objects.filter(pk=row["id"]).update(carries=task, **kept)
        row.update(kept)  # a question about the task shows these
    return len(started)
