"""Which buttons a failure pattern gets: only those whose move is allowed (pure)."""

from dashboard.actions import Action
from ledger.states import Who
from retries.states import PatternState, allowed_pattern_moves

# It changes tasks, so it starts an operation on them.
RETRY_ALL = Action("retry", "Retry all…", key="r", icon="undo")
RESOLVE = Action("resolve", "Resolve", key="s", icon="check")
IGNORE = Action("ignore", "Ignore", key="i", icon="s-skipped")
REOPEN = Action("reopen", "Reopen", key="o", icon="undo")
# seconds for which a pattern can be ignored, with a label
IGNORE_TIMES = (
    (3600, "1 hour"),
    (86_400, "1 day"),
    (7 * 86_400, "1 week"),
    (30 * 86_400, "30 days"),
)
ACTIONS = {action.slug: action for action in (RESOLVE, IGNORE, REOPEN)}


def allowed_actions(state: str, *, stuck: int) -> list[Action]:
    """Return the buttons for a pattern with that many stuck tasks."""
    may = allowed_pattern_moves(state, Who.PERSON)
    moves = (
        (PatternState.RESOLVED, RESOLVE),
        (PatternState.IGNORED, IGNORE),
        (PatternState.OPEN, REOPEN),
    )
    allowed = [action for to, action in moves if to in may and to != state]
    return [RETRY_ALL, *allowed] if stuck else allowed
