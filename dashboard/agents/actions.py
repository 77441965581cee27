"""Decide which of an agent's buttons are allowed (pure)."""

from dashboard.actions import Action
from ledger.states import BreakerState

# the template completes each question with the agent's name and adds its consequence
TRIP = Action("trip", "Trip breaker", question="Trip the breaker for", icon="c-open")
KEEP_OPEN = Action(
    "keep-open", "Keep it open", key="h", question="Keep the breaker open for", icon="hold"
)
CLOSE = Action("close", "Close breaker", question="Close the breaker for", icon="c-closed")
RESET = Action(
    "reset",
    "Cancel pending",
    question="Cancel all pending instructions for",
    icon="s-aborted",
)
ACTIONS = {action.slug: action for action in (TRIP, KEEP_OPEN, CLOSE, RESET)}


def allowed_actions(state: BreakerState, *, is_kept_open: bool) -> list[Action]:
    """Return the buttons for a breaker in that state."""
    allowed = [TRIP] if state != BreakerState.OPEN else [] if is_kept_open else [KEEP_OPEN]
    allowed += [CLOSE] if state != BreakerState.CLOSED else []
    return [*allowed, RESET]
