"""The verbs of operations on tasks: retry, retry now, unblock, skip, abort, change the priority."""

from uuid import UUID

from django.db.models import Exists, OuterRef, Q

from ledger.errors import Invalid, Refusal
from ledger.journal import Stamp
from ledger.models import DeadLetter, Task
from ledger.states import FINAL, TASK_MOVES, BlockedReason, TaskState, Who
from ledger.tasks.changing import Change, change
from ledger.tasks.lineage import fetch_task
from ledger.tasks.spec import PRIORITIES
from retries import deadletters, task_actions
from retries.escalations import answering
from retries.escalations.choices import Choice
from retries.failures.patterns import retryable_escalations
from retries.models import Escalation
from retries.operations.bulk_verb import (
    BulkVerb,
    Left,
    Options,
    Rows,
    check_dependents,
    explain_left,
)
from retries.states import Answer

SKIPPABLE = [
    state for state, to in TASK_MOVES.items() if Who.PERSON in to.get(TaskState.SKIPPED, ())
]
PERMISSION = "ledger.change_task"


def describe_tasks(ids: list[UUID]) -> dict[UUID, Left]:
    """Return the state of tasks that a verb left as they are."""
    rows = Task.objects.filter(pk__in=ids).order_by("id")
    return {
        row.pk: Left("Already asked to stop")
        if row.state == TaskState.RUNNING and row.abort_requested_at
        else Left(f"State is now “{row.state}”")
        for row in rows.only("id", "state", "abort_requested_at")
    }


# ---- retry, whatever the task waits for


def narrow_to_stuck(rows: Rows) -> Rows:
    """Keep tasks that wait for a retry, that failed, or whose question “retry” can answer."""
    letters = DeadLetter.objects.replayable().filter(task=OuterRef("pk"))
    asked = retryable_escalations().filter(task=OuterRef("pk"))
    return rows.filter(
        Q(state=TaskState.RETRY)
        | Q(Exists(letters), state=TaskState.FAILED)
        | Q(Exists(asked), state=TaskState.ESCALATED),
        replaced_by=None,
    )


def retry(ids: list[UUID], options: Options, stamp: Stamp) -> dict[UUID, Left]:
    return {id: left for id in ids if (left := retry_one(id, stamp))}


def retry_one(task_id: UUID, stamp: Stamp) -> Left | None:
    """Retry a task as its state needs it; return why if that is impossible."""
    row = fetch_task(task_id)
    match row["state"]:
        case TaskState.RETRY if task_actions.retry_now([task_id], stamp=stamp):
            return None
        case TaskState.FAILED:
            letters = DeadLetter.objects.filter(task=task_id).order_by("id")
            ids = list(letters.values_list("pk", flat=True))
            if deadletters.replay(ids, among=DeadLetter.objects.all(), stamp=stamp):
                return None
            return Left("Its dead letter is closed, or its plan is aborted")
        case TaskState.ESCALATED:
            asked = retryable_escalations().filter(task=task_id).order_by("id").first()
            if asked is None:
                return Left("A person has to read its question")
            answering.answer(
                asked.pk,
                Choice(Answer.RETRY),
                among=Escalation.objects.all(),
                stamp=stamp,
                channel="page",
            )
            return None
    return Left(f"State is now “{row['state']}”")


# ---- the other verbs


def narrow_to_waiting(rows: Rows) -> Rows:
    return rows.filter(state=TaskState.RETRY)


def retry_now(ids: list[UUID], options: Options, stamp: Stamp) -> dict[UUID, Left]:
    return explain_left(ids, set(task_actions.retry_now(ids, stamp=stamp)), describe_tasks)


def narrow_to_skipped_need(rows: Rows) -> Rows:
    return rows.filter(blocked_reason=BlockedReason.DEPENDENCY_SKIPPED)


def unblock(ids: list[UUID], options: Options, stamp: Stamp) -> dict[UUID, Left]:
    return explain_left(ids, set(task_actions.unblock(ids, stamp=stamp)), describe_tasks)


def narrow_to_skippable(rows: Rows) -> Rows:
    return rows.filter(state__in=SKIPPABLE)


def skip(ids: list[UUID], options: Options, stamp: Stamp) -> dict[UUID, Left]:
    skipped = task_actions.skip(ids, dependents=options["dependents"], stamp=stamp)
    return explain_left(ids, set(skipped), describe_tasks)


def narrow_to_abortable(rows: Rows) -> Rows:
    rows = rows.exclude(state__in=FINAL)
    return rows.exclude(state=TaskState.RUNNING, abort_requested_at__isnull=False)


def abort(ids: list[UUID], options: Options, stamp: Stamp) -> dict[UUID, Left]:
    aborted = task_actions.abort(ids, reason=options.get("reason", ""), stamp=stamp)
    return explain_left(ids, set(aborted), describe_tasks)


def narrow_to_unfinished(rows: Rows) -> Rows:
    return rows.exclude(state__in=FINAL)


def check_priority(options: Options) -> Options:
    low, high = PRIORITIES
    try:
        priority = int(str(options.get("priority", "")))
    except ValueError:
        raise Invalid("/priority", "Give the priority as a whole number.") from None
    if not low <= priority <= high:
        raise Invalid("/priority", f"The priority must be from {low} to {high}.")
    return {"priority": priority}


def prioritize(ids: list[UUID], options: Options, stamp: Stamp) -> dict[UUID, Left]:
    left = {}
    for id in ids:
        try:
            asked = Change(priority=options["priority"])
            change(id, asked, version=fetch_task(id)["version"], stamp=stamp)
        except Refusal as refusal:
            left[id] = Left(refusal.title(), refusal.detail)
    return left


def task_verb(name: str, **more: object) -> BulkVerb:
    return BulkVerb(name=f"task.{name}", permission=PERMISSION, model=Task, **more)  # type: ignore[arg-type]


VERBS = (
    task_verb("retry", narrow=narrow_to_stuck, apply=retry, batch=1),
    task_verb("retry_now", narrow=narrow_to_waiting, apply=retry_now),
    task_verb("unblock", narrow=narrow_to_skipped_need, apply=unblock),
    task_verb("skip", narrow=narrow_to_skippable, apply=skip, check=check_dependents),
    task_verb("abort", narrow=narrow_to_abortable, apply=abort),
    task_verb("prioritize", narrow=narrow_to_unfinished, apply=prioritize, check=check_priority),
)
