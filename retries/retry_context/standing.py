"""Say in one sentence where things stand: how the previous attempt ended (pure)."""

from collections.abc import Sequence
from dataclasses import dataclass

from ledger.states import Outcome
from retries.retry_context.elements import one_line
from retries.retry_context.failure_elements import FailureRecord
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
    """How the escalation that an attempt led to was closed."""

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


SAME = "Attempt {last} failed with the same error as attempt {before}{changes}."
BACK = "The error of attempt {first} came back in attempt {last}; attempt {before} had another one."
OTHER = "The error of attempt {before} is gone; attempt {last} failed with another one."
MOST_PATHS, PATH_LENGTH = 5, 120


def compare_failures(failures: Sequence[FailureRecord]) -> str:
    """Return the sentence that compares the last failure with the earlier ones.

    It is empty where there are not two failures, or where one of them does not tell its cause.
    """
    told = [each for each in failures if each.headline]
    if len(told) < 2 or told[-1] is not failures[-1]:
        return ""
    *earlier, before, last = told
    key = last.signature.key
    numbers = {"last": last.attempt, "before": before.attempt}
    if key == before.signature.key:
        return SAME.format(**numbers, changes=describe_changes(last))
    for each in earlier:
        if key == each.signature.key:
            return BACK.format(**numbers, first=each.attempt)
    return OTHER.format(**numbers)


def describe_changes(failure: FailureRecord) -> str:
    """Return which files the attempt changed without effect, if it said so."""
    paths = [one_line(str(each.get("path") or "?"), PATH_LENGTH) for each in failure.files]
    if not paths:
        return ""
    more = f" and {len(paths) - MOST_PATHS} more" if len(paths) > MOST_PATHS else ""
    return f", although it changed {', '.join(paths[:MOST_PATHS])}{more}"
