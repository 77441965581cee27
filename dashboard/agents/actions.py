"""Decide which of an agent's buttons are allowed (pure)."""

from ledger.states import BreakerState
from retries.verbs.agents import CLOSE, KEEP_OPEN, RESET, TRIP
from retries.verbs.verb import Verb


def allowed_actions(state: BreakerState, *, is_kept_open: bool) -> list[Verb]:
    """Return the buttons for a breaker in that state, which is half-open once its time is over."""
    allowed = [TRIP] if state != BreakerState.OPEN else [] if is_kept_open else [KEEP_OPEN]
    allowed += [CLOSE] if state != BreakerState.CLOSED else []
    return [*allowed, RESET]
