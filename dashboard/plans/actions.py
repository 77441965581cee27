"""Decide which of a plan's buttons are allowed in its state (pure)."""

from dashboard.actions import Action
from dashboard.plans.progress import TaskCounts
from ledger.models import Plan, PlanState
from ledger.states import TaskState

PAUSE = Action("pause", "Pause plan", icon="pause")
RESUME = Action("resume", "Resume plan", icon="play")
ABORT = Action(
    "abort",
    "Abort",
    key="a",
    icon="s-aborted",
    question="Abort this plan?",
    consequence="Completed tasks stay completed, and no more tasks start.",
)
RESTART = Action(
    "restart",
    "Restart",
    key="r",
    icon="undo",
    question="Restart this plan?",
    consequence="Completed tasks stay completed. A new task replaces every other task.",
)
ACTIONS = {action.slug: action for action in (PAUSE, RESUME, ABORT, RESTART)}


def allowed_actions(plan: Plan, counts: TaskCounts) -> list[Action]:
    match plan.state:
        case PlanState.ACTIVE:
            return [PAUSE, ABORT]
        case PlanState.PAUSED:
            return [RESUME, ABORT]
    # an aborted plan can restart only after its running tasks have ended
    has_unfinished = counts.total > counts.states[TaskState.DONE]
    return [RESTART] if has_unfinished and counts.over == counts.total else []
