"""Describe in one sentence how the previous attempt ended, if it did not fail."""

from dataclasses import dataclass

from ledger.states import Outcome
from retries.states import QUESTIONS, EscalationState

RELEASED = "Attempt {number} was released before it finished, and did not fail."
BLOCKED = "Attempt {number} was blocked, and a person has cleared the blocker."
QUESTION = "Attempt {number} asked a question{what}."
ANSWERED = ", and a person has answered it"
QUESTION_ENDS = {
    EscalationState.EXPIRED: ", which expired without an answer",
    EscalationState.WITHDRAWN: ", and its agent withdrew it",
}


@dataclass(frozen=True, slots=True)
class Closing:
    """The end of the escalation that an attempt led to."""

    reason: str
    state: str


def describe_ending(number: int, outcome: str, closing: Closing | None) -> str:
    """Return the sentence about an attempt; empty if it failed or its end is not known.

    >>> describe_ending(1, "blocked", Closing("blocked", "resolved"))
    'Attempt 1 was blocked, and a person has cleared the blocker.'
    """
    if outcome == Outcome.RELEASED:
        return RELEASED.format(number=number)
    if outcome not in (Outcome.BLOCKED, Outcome.ESCALATED) or closing is None:
        return ""
    state = EscalationState(closing.state)
    if closing.reason not in QUESTIONS:
        return "" if state in QUESTION_ENDS else BLOCKED.format(number=number)
    # While the escalation is open, the block is a preview for the person who answers it.
    return QUESTION.format(number=number, what=QUESTION_ENDS.get(state, ANSWERED))
