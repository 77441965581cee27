"""The states of escalations and of patterns, why a person is asked, and what can be answered."""

from django.db.models import TextChoices

from ledger.states import Who


class EscalationState(TextChoices):
    """Where a question to a person stands."""

    # somebody has to answer; an answer, its asker or its expiry moves it on
    OPEN = "open"
    # a person has answered; final
    RESOLVED = "resolved"
    # the time its asker set ran out; final
    EXPIRED = "expired"
    # its asker needs no answer any more; final
    WITHDRAWN = "withdrawn"


class Reason(TextChoices):
    """Why a machine could not settle it."""

    INSTRUCTION_IGNORED = "instruction_ignored"
    MAX_RETRIES_EXCEEDED = "max_retries_exceeded"
    PERMISSION_DENIED = "permission_denied"
    SERVICE_UNAVAILABLE = "service_unavailable"
    CONFLICTING_REQUIREMENTS = "conflicting_requirements"
    IMPOSSIBLE = "impossible"
    NEEDS_CONFIRMATION = "needs_confirmation"
    BLOCKED = "blocked"
    NON_RETRYABLE = "non_retryable"
    RELEASES_EXHAUSTED = "releases_exhausted"
    AGENT_QUESTION = "agent_question"


class Answer(TextChoices):
    """What a person can answer."""

    RETRY = "retry"
    FIX = "fix"
    SKIP = "skip"
    ABORT = "abort"
    # to a question that an agent asked, and to nothing else
    ANSWER = "answer"


class PatternState(TextChoices):
    """The state of a failure pattern; `PATTERN_MOVES` says who moves it on."""

    # no person has dealt with it
    OPEN = "open"
    # a person knows it and wants to hear no more of it, for good or for some time
    IGNORED = "ignored"
    # a person has fixed its cause
    RESOLVED = "resolved"
    # it was resolved and has failed again
    REGRESSED = "regressed"


# the states of patterns that need a person's attention
TROUBLING = (PatternState.OPEN, PatternState.REGRESSED)

P = PatternState

# which state a pattern may leave for which, and who may make it do so: a person by choice, or an
# agent by a new failure (an ignored pattern opens only after its time is over)
PATTERN_MOVES: dict[PatternState, dict[PatternState, tuple[Who, ...]]] = {
    P.OPEN: {P.IGNORED: (Who.PERSON,), P.RESOLVED: (Who.PERSON,)},
    P.IGNORED: {
        P.OPEN: (Who.PERSON, Who.AGENT),
        P.IGNORED: (Who.PERSON,),
        P.RESOLVED: (Who.PERSON,),
    },
    P.RESOLVED: {P.OPEN: (Who.PERSON,), P.REGRESSED: (Who.AGENT,)},
    P.REGRESSED: {P.IGNORED: (Who.PERSON,), P.RESOLVED: (Who.PERSON,)},
}


def allowed_pattern_moves(state: str, who: Who) -> list[PatternState]:
    """Return the states that `who` may move a pattern in `state` to.

    >>> [str(to) for to in allowed_pattern_moves("resolved", Who.AGENT)]
    ['regressed']
    """
    return [to for to, movers in PATTERN_MOVES[PatternState(state)].items() if who in movers]


def pattern_sources(to: PatternState, who: Who) -> list[PatternState]:
    """Return the states from which `who` may move a pattern to a state."""
    return [state for state in PATTERN_MOVES if to in allowed_pattern_moves(state, who)]


class Dependents(TextChoices):
    """What becomes of what depends on a task that a person goes on without."""

    # it counts as met, and whoever looks is told that it is missing
    CONTINUE = "continue"
    # they stay blocked, or become it, until a person decides about them
    BLOCK = "block"
    # they are skipped too, and what depends on them
    SKIP = "skip"


class OnExpiry(TextChoices):
    """What becomes of a task whose question nobody answered in time; its asker says."""

    RETRY = "retry"
    SKIP = "skip"
    ABORT = "abort"
    FAIL = "fail"


# the answers that consist of text, with the words that begin a sentence about each
TEXT_ANSWERS = {Answer.FIX: "A fix", Answer.ANSWER: "An answer"}
