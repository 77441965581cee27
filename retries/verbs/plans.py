"""The verbs of plans: pause, resume, abort, restart."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

from ledger.admin_pages.confirmation import list_effects
from ledger.errors import Invalid
from ledger.journal import Stamp
from ledger.models import Plan, PlanState, Task
from ledger.models.plan import STANDS
from ledger.plans import editing
from ledger.states import TaskState
from ledger.values.text import counted
from retries.plans import aborting, restarting
from retries.verbs.effects import describe_abort, describe_stopped
from retries.verbs.verb import Left, Options, Rows, Verb, call, note_of


def abort(ids: list[UUID], options: Options, stamp: Stamp) -> dict[UUID, tuple[int, int]]:
    """Abort plans; return for each how many tasks were aborted, and how many told to stop."""
    done = aborting.abort(ids, reason=note_of(options), stamp=stamp)
    return {plan.pk: aborting.count_stopped([plan], at=stamp.at) for plan in done}


def report_aborted(stopped: Mapping[UUID, tuple[int, int]], options: Options) -> str:
    of_tasks = describe_stopped(*map(sum, zip(*stopped.values(), strict=True))) if stopped else ""
    return f"aborted, {of_tasks}" if of_tasks else "aborted"


def describe_plan_abort(rows: Rows, options: Options) -> list[str]:
    plans = rows.count()
    tasks = describe_abort(Task.objects.filter(plan__in=rows.values("pk")))
    return [*list_effects((plans, f"{counted(plans, 'plan')} will be aborted.")), *tasks]


def check_restart(options: Mapping[str, Any]) -> Options:
    """Return the time from which attempts are kept, in UTC, or none; raise Invalid."""
    if options.get("counters") != "carry":
        return {"carry_over": None}
    try:
        at = datetime.fromisoformat(options.get("carry_over", ""))
    except ValueError as error:
        raise Invalid("/carry_over", "Enter the date and time to keep attempts from.") from error
    return {"carry_over": at if at.tzinfo else at.replace(tzinfo=UTC)}


def restart(id: UUID, options: Options, stamp: Stamp) -> Left | None:
    restarting.restart(id, carry_over=options["carry_over"], stamp=stamp)
    return None


def describe_restart(rows: Rows, options: Options) -> list[str] | None:
    rest = Task.objects.current().filter(plan__in=rows.values("pk")).exclude(state=TaskState.DONE)
    tasks, plans = rest.count(), rest.values("plan").distinct().count()
    effects = list_effects(
        (plans, f"{counted(plans, 'plan')} will start again."),
        (tasks, f"{counted(tasks, 'unfinished task')} will run again as new tasks."),
    )
    return effects or None


plan_verb = partial(
    Verb,
    model=Plan,
    unchanged=lambda id: (
        "Nothing changed. The plan changed in the meantime. Check its state and retry."
    ),
)
PAUSE = plan_verb(
    name="plan.pause",
    where=STANDS[PlanState.ACTIVE],
    run=call(editing.pause, note="reason"),
    words=("Pause plan", "", "paused"),
    icon="pause",
    slug="pause",
    said=lambda *told: "Plan paused. Agents get no more of its tasks; running tasks continue.",
    admin="Pause: start no more of its tasks",
)
RESUME = plan_verb(
    name="plan.resume",
    where=STANDS[PlanState.PAUSED],
    run=call(editing.resume, note="reason"),
    words=("Resume plan", "", "resumed"),
    icon="play",
    slug="resume",
    said=lambda *told: "Plan resumed. Agents get its tasks again.",
    admin="Resume",
)
ABORT = plan_verb(
    name="plan.abort",
    where=STANDS[PlanState.ACTIVE] | STANDS[PlanState.PAUSED],
    run=abort,
    words=("Abort", "", "aborted"),
    is_red=True,
    icon="s-aborted",
    slug="abort",
    key="a",
    question="Abort this plan?",
    consequence="Completed tasks stay completed, and no more tasks start.",
    said=lambda *told: "Plan aborted. Running tasks were told to stop.",
    admin="Abort…",
    admin_done=report_aborted,
    effects=describe_plan_abort,
)
RESTART = plan_verb(
    name="plan.restart",
    where=STANDS[PlanState.COMPLETED] | STANDS[PlanState.ABORTED],
    check_all=check_restart,
    each=restart,
    words=("Restart", "", "restarted"),
    icon="undo",
    slug="restart",
    key="r",
    question="Restart this plan?",
    consequence="Completed tasks stay completed. A new task replaces every other task.",
    said=lambda changed, ids, options: f"Plan restarted as run {Plan.objects.get(pk=ids[0]).run}.",
    admin="Restart: run the tasks that are not done again",
    effects=describe_restart,
)
VERBS = (PAUSE, RESUME, ABORT, RESTART)
