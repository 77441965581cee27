"""Aborts of plans, by a person or by an answer about one of their tasks."""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from ledger.database import sql
from ledger.journal import Kind, Stamp
from ledger.models import Event, Plan, PlanState, Task
from ledger.plans.editing import record_event, update_columns
from ledger.secrets.notes import noted
from ledger.states import FINAL
from retries.models import Escalation
from retries.states import Answer
from retries.tasks import actions as task_actions
from retries.tasks import checkpoints


@sql.atomic
def abort(plan_ids: Iterable[UUID], *, reason: str = "", stamp: Stamp) -> list[Plan]:
    """Stop these plans permanently; return those that changed."""
    # Running tasks are asked to stop, all others that are not over are aborted, and the open
    # questions about them are withdrawn. Tasks that are done stay done.
    plan_ids = list(plan_ids)
    # Lock in the order of an answer: the questions, then their plans, then the tasks.
    questions = Escalation.objects.open().filter(task__plan__in=plan_ids)
    list(questions.order_by("id").select_for_update(of=("self",)).values_list("pk"))
    changed = list(Plan.objects.lock(plan_ids).in_state(PlanState.ACTIVE, PlanState.PAUSED))
    for plan in changed:
        former = plan.state
        update_columns(plan, aborted_at=stamp.at, now=stamp.at)
        under_way = Task.objects.filter(plan=plan).exclude(state__in=FINAL).order_by("pk")
        # Lock before reading the states: a task that is just being claimed is running then.
        ids = list(under_way.select_for_update(no_key=True).values_list("pk", flat=True))
        stopped = task_actions.abort(ids, stamp=stamp)
        record_event(
            plan,
            Kind.PLAN_ABORTED,
            stamp=stamp,
            from_state=former,
            to_state=plan.state,
            data={
                "aborted": sum(stopped.values()),
                "running": len(stopped) - sum(stopped.values()),
                **noted(reason, name="reason"),
            },
        )
    return changed


def count_stopped(plans: Iterable[Plan], *, at: datetime) -> tuple[int, int]:
    """Return how many tasks the abort at that time ended, and how many it asked to stop."""
    events = Event.objects.since(at).filter(
        subject_id__in=[plan.pk for plan in plans], kind=Kind.PLAN_ABORTED, at=at
    )
    counts = list(events.values_list("data", flat=True))
    return sum(each["aborted"] for each in counts), sum(each["running"] for each in counts)


def follow_answer(task: Task, action: str, *, stamp: Stamp) -> None:
    # The task has moved already. `abort` stops the whole plan; `skip` and `accept` may have met the
    # last need of a checkpoint.
    if action == Answer.ABORT and task.plan_id:
        abort([task.plan_id], stamp=stamp)
    if action in (Answer.SKIP, Answer.ACCEPT):
        checkpoints.open_questions_after([task.pk], stamp=stamp)
