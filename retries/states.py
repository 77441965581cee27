"""The states of an escalation, why it was opened, and what can be answered."""

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
