"""What a person can do with a plan: only what is allowed where it stands (pure)."""

from dashboard.actions import Offer
from dashboard.plans.progress import Tally
from ledger.models import Plan, PlanState
from ledger.states import TaskState

PAUSE = Offer("pause", "Pause plan", icon="pause")
RESUME = Offer("resume", "Resume plan", icon="play")
ABORT = Offer(
    "abort",
    "Abort",
    key="a",
    icon="s-aborted",
    question="Abort this plan?",
    consequence="What is done stays done, and no further task is started.",
)
RESTART = Offer(
    "restart",
    "Restart",
    key="r",
    icon="undo",
    question="Restart this plan?",
    consequence="What is done stays done. Each other task is made anew and takes the old one’s "
    "place.",
)
PLAN_OFFERS = {offer.verb: offer for offer in (PAUSE, RESUME, ABORT, RESTART)}


def plan_offers(plan: Plan, tally: Tally) -> list[Offer]:
    match plan.state:
        case PlanState.ACTIVE:
            return [PAUSE, ABORT]
        case PlanState.PAUSED:
            return [RESUME, ABORT]
    rest = tally.total > tally.states[TaskState.DONE]
    return [RESTART] if rest and tally.over == tally.total else []
