"""Which buttons a rule gets (pure)."""

from dashboard.actions import Action
from ledger.models.standing_instruction import RuleState

PAUSE = Action("pause", "Pause the rule", key="P", icon="pause")
RESUME = Action("resume", "Switch on", key="P", icon="play")
RETIRE = Action(
    "retire",
    "Retire rule",
    icon="trash",
    question="Retire this rule for good?",
    confirm="Retire rule",
    consequence="It never sends anything again, and its record stays.",
)
ACTIONS = {action.slug: action for action in (PAUSE, RESUME, RETIRE)}


def allowed_actions(state: str) -> list[Action]:
    """Return the buttons for a rule in this state."""
    match state:
        case RuleState.ACTIVE:
            return [PAUSE, RETIRE]
        case RuleState.PAUSED | RuleState.DRAFT:
            return [RESUME, RETIRE]
    return []
