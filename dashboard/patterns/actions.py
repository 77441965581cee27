"""Which buttons a failure pattern gets: only those whose move is allowed (pure)."""

from dashboard.actions import Action
from retries.states import PATTERN_MOVES, PatternState

RETRY_ALL = Action(
    "retry",
    "Retry all",
    key="r",
    icon="undo",
    question="Retry all stuck tasks?",
    consequence="Dead letters are replayed as new tasks, pending retries start now, and open "
    "questions are answered with a retry.",
)
RESOLVE = Action("resolve", "Resolve", key="s", icon="check")
IGNORE = Action("ignore", "Ignore", key="i", icon="s-skipped")
REOPEN = Action("reopen", "Reopen", key="o", icon="undo")
ACTIONS = {action.verb: action for action in (RETRY_ALL, RESOLVE, IGNORE, REOPEN)}


def allowed_actions(state: str, *, stuck: int) -> list[Action]:
    """Return the buttons for a pattern with that many stuck tasks."""
    may = PATTERN_MOVES[PatternState(state)]
    moves = (
        (PatternState.RESOLVED, RESOLVE),
        (PatternState.IGNORED, IGNORE),
        (PatternState.OPEN, REOPEN),
    )
    allowed = [action for to, action in moves if to in may and to != state]
    return [RETRY_ALL, *allowed] if stuck else allowed
