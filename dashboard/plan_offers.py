"""What a person can do with a plan: only what is allowed where it stands (pure)."""

from dashboard.offers import Offer
from ledger.models import Plan
from ledger.models.plan import PlanState

PAUSE = Offer("pause", "Pause plan", icon="pause")
RESUME = Offer("resume", "Resume plan", icon="play")
ABORT = Offer(
    "abort",
    "Abort",
    key="a",
    icon="s-aborted",
    question="Abort this plan?",
    consequence="What is done is kept, and nothing further is started.",
)
RESTART = Offer(
    "restart",
    "Restart",
    key="r",
    icon="undo",
    question="Restart this plan?",
    consequence="It is a new run: what is done stays done, and each other task is made anew and "
    "takes the old one’s place.",
)
PLAN_OFFERS = {offer.verb: offer for offer in (PAUSE, RESUME, ABORT, RESTART)}
BY_STATE = {
    PlanState.ACTIVE: [PAUSE, ABORT],
    PlanState.PAUSED: [RESUME, ABORT],
    PlanState.COMPLETED: [],
    PlanState.ABORTED: [RESTART],
}


def plan_offers(plan: Plan) -> list[Offer]:
    return BY_STATE[plan.state]
