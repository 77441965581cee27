"""The states of escalations and failure patterns, the reasons to escalate, and the answers."""

from django.db.models import TextChoices

from ledger.states import Who


class EscalationState(TextChoices):
    """The state of an escalation."""

    # waits for an answer, its withdrawal or its expiry
    OPEN = "open"
    # a person has answered; only an undo reopens it
    RESOLVED = "resolved"
    # no answer came before the time that its asker set; final
    EXPIRED = "expired"
    # an answer is no longer needed; final
    WITHDRAWN = "withdrawn"


class Reason(TextChoices):
    """The reason why a person is asked."""

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
    QUESTIONS_EXHAUSTED = "questions_exhausted"
    # by the project's policies
    NEEDS_QUOTA = "needs_quota"
    NEEDS_CREDENTIALS = "needs_credentials"
    NEEDS_PERMISSION = "needs_permission"
    NO_RETRY_HELPS = "no_retry_helps"
    SAME_FAILURE_AGAIN = "same_failure_again"
    # it is done by its agent's word, and proof is required
    UNPROVEN = "unproven"
    # it waits for leave to make one tool call
    PERMISSION_REQUEST = "permission_request"
    # a budget of the task, of its plan or of its project is used up
    BUDGET_USED = "budget_used"


# the reasons of escalations that ask a question; a person can answer it
QUESTIONS = (Reason.AGENT_QUESTION, Reason.QUESTIONS_EXHAUSTED)


class PolicyScope(TextChoices):
    """The tasks of a project that a policy is for."""

    OFF = "off", "no tasks"
    PLANS = "plans", "tasks of plans"
    ALL = "all", "all tasks"


class ContextElement(TextChoices):
    """The elements of the retry context that an experiment can leave out."""

    STANDING = "standing", "where things stand"
    KNOWN = "known", "known errors and fixes"
    LEARNINGS = "accumulated_learnings", "learnings"
    WINDOWS = "windows", "the lines around an error"
    # leaves nothing out: both sides should do equally well
    NOTHING = "nothing", "nothing (an A/A run)"


class Verdict(TextChoices):
    """A person's decision about a fix."""

    # it is advice, whatever its counts
    PROMOTED = "promoted"
    # it is offered and told no more
    RETIRED = "retired"


class Answer(TextChoices):
    """The answers to an escalation."""

    RETRY = "retry"
    FIX = "fix"
    SKIP = "skip"
    ABORT = "abort"
    # only for a question from an agent or a checkpoint
    ANSWER = "answer"
    # only for a task that is done without the proof that is required
    ACCEPT = "accept"
    # only for a permission request, for this one call
    ALLOW = "allow"
    DENY = "deny"
    # only for a task that waits for a budget: an amount, such as 500000 tokens
    GRANT = "grant"


class PatternState(TextChoices):
    """The state of a failure pattern; `PATTERN_MOVES` says who moves it on."""

    # no person has dealt with it
    OPEN = "open"
    # a person knows it and wants no more notices of it, permanently or for some time
    IGNORED = "ignored"
    # a person has fixed its cause
    RESOLVED = "resolved"
    # it was resolved and has failed again
    REGRESSED = "regressed"


# the states of patterns that need a person's attention
TROUBLING = (PatternState.OPEN, PatternState.REGRESSED)

P = PatternState

# the moves of a pattern between states, and who may make them: a person by choice, or an agent by
# a new failure (an ignored pattern opens only after its time is over)
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
    return [state for state in PATTERN_MOVES if to in allowed_pattern_moves(state, who)]


class Dependents(TextChoices):
    """The treatment of the dependents of a skipped task or a dismissed dead letter."""

    # the need counts as met, and the journal warns that it is missing
    CONTINUE = "continue"
    # they are blocked until a person decides about them
    BLOCK = "block"
    # they and their dependents are skipped too
    SKIP = "skip"


class OnExpiry(TextChoices):
    """The treatment of a task whose question expires; its asker chooses."""

    RETRY = "retry"
    SKIP = "skip"
    ABORT = "abort"
    FAIL = "fail"
    # of a permission request: the agent's own program decides
    TERMINAL = "terminal"


class PermissionState(TextChoices):
    """The state of a permission request; all but the first are final but for an undo."""

    WAITING = "waiting"
    # by a person or by a rule
    ALLOWED = "allowed"
    DENIED = "denied"
    # no answer came in time, and none is given
    EXPIRED = "expired"
    # a person at the agent's terminal answered first
    ANSWERED_THERE = "answered_there"
    # the agent no longer asks
    WITHDRAWN = "withdrawn"


class WhenSilent(TextChoices):
    """An agent program's reaction if a call gets no answer."""

    # its own prompt is open at the same time, and goes on waiting
    TERMINAL_WAITS = "terminal_waits", "The terminal asks at the same time."
    # its own prompt opens afterward
    TERMINAL_ASKS = "terminal_asks", "The terminal asks instead."
    # whether it has a terminal is not known
    PROGRAM_DECIDES = "program_decides", "The terminal asks; without one, the call is refused."
    # there is no terminal: its program refuses the call
    REFUSES = "refuses", "The agent's program refuses the call."


class RuleState(TextChoices):
    """The state of a permission rule."""

    ACTIVE = "active"
    # a person has ended it
    REVOKED = "revoked"
    # it was not used for a long time
    EXPIRED = "expired"
    # a proposal that a person put aside; it was never in effect
    DISMISSED = "dismissed"


# the answers that consist of text, with the words that begin a sentence about each
TEXT_ANSWERS = {
    Answer.FIX: "A fix",
    Answer.ANSWER: "An answer",
    Answer.DENY: "A denial",
    Answer.GRANT: "A grant",
}
# the answers to a permission request, which no other escalation takes
PERMISSION_ANSWERS = (Answer.ALLOW, Answer.DENY)
