"""The states of escalations and of patterns, why a person is asked, and what can be answered."""

from django.db.models import TextChoices


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
    """Where a pattern of failures stands."""

    # nobody has dealt with it; a person moves it on
    OPEN = "open"
    # a person knows and does not mind; a person, or a failure once its time is over, moves it on
    IGNORED = "ignored"
    # a person says it is mended; a person, or the next failure, moves it on
    RESOLVED = "resolved"
    # it was resolved, and came again; a person moves it on
    REGRESSED = "regressed"


# nobody has dealt with it, or it came back
TROUBLING = (PatternState.OPEN, PatternState.REGRESSED)
# what a person can do; what a failure does is in `retries.failures.grouping`
PATTERN_MOVES: dict[PatternState, set[PatternState]] = {
    PatternState.OPEN: {PatternState.IGNORED, PatternState.RESOLVED},
    PatternState.IGNORED: {PatternState.OPEN, PatternState.IGNORED, PatternState.RESOLVED},
    PatternState.RESOLVED: {PatternState.OPEN},
    PatternState.REGRESSED: {PatternState.IGNORED, PatternState.RESOLVED},
}


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
