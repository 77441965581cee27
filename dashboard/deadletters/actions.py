"""Which buttons a dead letter gets: only those that are allowed (pure)."""

from dashboard.actions import Action
from ledger.models import DeadLetter

REPLAY = Action(
    "replay",
    "Replay",
    key="r",
    icon="undo",
    question="Replay this dead letter?",
    consequence="A new task with the same payload starts at attempt 1. Dependent tasks wait for "
    "the new task.",
)
DISMISS = Action(
    "dismiss",
    "Dismiss",
    key="d",
    icon="trash",
    question="Dismiss this dead letter?",
    consequence="The task does not run again. Its failures stay on record.",
)
# the verbs of operations that the list offers for many dead letters
BULK_VERBS = ("dead_letter.replay", "dead_letter.dismiss")
ACTIONS = {action.verb: action for action in (REPLAY, DISMISS)}


def allowed_actions(letter: DeadLetter) -> list[Action]:
    """Return the buttons for a dead letter."""
    if letter.closed_at:
        return []
    plan = letter.task.plan
    # the tasks of an aborted plan run again only when the plan is restarted
    return [DISMISS] if plan and plan.aborted_at else [REPLAY, DISMISS]
