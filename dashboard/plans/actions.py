"""What a person can do with a plan: only what is allowed where it stands (pure)."""

from dashboard.actions import Action
from dashboard.plans.progress import Tally
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
ACTIONS = {offer.verb: offer for offer in (PAUSE, RESUME, ABORT, RESTART)}


def allowed_actions(plan: Plan, tally: Tally) -> list[Action]:
    match plan.state:
        case PlanState.ACTIVE:
            return [PAUSE, ABORT]
        case PlanState.PAUSED:
            return [RESUME, ABORT]
    rest = tally.total > tally.states[TaskState.DONE]
    return [RESTART] if rest and tally.over == tally.total else []
