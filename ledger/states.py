"""The states of instructions and tasks, who moves them on, and how loud an instruction is."""

from django.db.models import TextChoices


class InstructionState(TextChoices):
    """Where an instruction stands."""

    # in the agent's queue, for the first time or again; a pull moves it on, or an early ack
    QUEUED = "queued"
    # handed to the agent, awaiting its ack; ack, idle check or a person moves it on
    DELIVERED = "delivered"
    # acknowledged; final
    ACKNOWLEDGED = "acknowledged"
    # ignored to the end; final
    FAILED = "failed"
    # withdrawn before it was acknowledged; final
    CANCELLED = "cancelled"


# what a tracked instruction can still become something else from
UNSETTLED = (InstructionState.QUEUED, InstructionState.DELIVERED)
SETTLED = tuple(state for state in InstructionState if state not in UNSETTLED)

# which state an instruction may leave for which
INSTRUCTION_MOVES: dict[InstructionState, tuple[InstructionState, ...]] = {
    InstructionState.QUEUED: (
        InstructionState.DELIVERED,
        InstructionState.ACKNOWLEDGED,
        InstructionState.CANCELLED,
    ),
    InstructionState.DELIVERED: (
        InstructionState.ACKNOWLEDGED,
        InstructionState.QUEUED,
        InstructionState.FAILED,
        InstructionState.CANCELLED,
    ),
    InstructionState.ACKNOWLEDGED: (),
    InstructionState.FAILED: (),
    InstructionState.CANCELLED: (),
}


class Urgency(TextChoices):
    """How loud a delivery is; derived from the number of retries before it, never stored."""

    FIRST = "first"
    AGAIN = "again"
    IMPORTANT = "important"
    URGENT = "urgent"


LEVELS = tuple(Urgency)
PREFIXES = {Urgency.IMPORTANT: "**IMPORTANT:** ", Urgency.URGENT: "**URGENT:** "}


def urgency_of(retry_count: int) -> Urgency:
    """The urgency of the delivery that `retry_count` retries led to.

    >>> [str(urgency_of(n)) for n in range(5)]
    ['first', 'again', 'important', 'urgent', 'urgent']
    """
    return LEVELS[min(retry_count, len(LEVELS) - 1)]


def prefixed(content: str, retry_count: int) -> str:
    """The text as the agent gets it: the content behind the prefix of its urgency.

    >>> prefixed("Run the tests", 2)
    '**IMPORTANT:** Run the tests'
    """
    return PREFIXES.get(urgency_of(retry_count), "") + content


# ---- tasks


class TaskState(TextChoices):
    """Where a task stands."""

    # waits in its agent's queue; a claim or a start moves it on
    QUEUED = "queued"
    # an attempt is under way; its report, its release or the end of its lease moves it on
    RUNNING = "running"
    # has failed and is tried again when `due_at` has come; a claim or a start moves it on
    RETRY = "retry"
    # something else comes first, `blocked_reason` says what; the clock or a person moves it on
    BLOCKED = "blocked"
    # a person is asked; the answer moves it on
    ESCALATED = "escalated"
    # its result is there; final
    DONE = "done"
    # given up, with a dead letter; final
    FAILED = "failed"
    # a person goes on without it; final
    SKIPPED = "skipped"
    # a person or producer has stopped it; final
    ABORTED = "aborted"


class BlockedReason(TextChoices):
    """What a blocked task waits for."""

    DEPENDENCY = "dependency"
    DEPENDENCY_SKIPPED = "dependency_skipped"
    BREAKER_OPEN = "breaker_open"
    REPORTED = "reported"


class Outcome(TextChoices):
    """How an attempt ended; it has none while it is live. An expired one is a failure."""

    SUCCESS = "success"
    FAILURE = "failure"
    RELEASED = "released"
    BLOCKED = "blocked"
    ESCALATED = "escalated"
    ABORTED = "aborted"


class Who(TextChoices):
    """Who may make a move."""

    AGENT = "agent"
    CLOCK = "clock"
    PERSON = "person"
    PRODUCER = "producer"


T, AGENT, CLOCK, PERSON, PRODUCER = TaskState, Who.AGENT, Who.CLOCK, Who.PERSON, Who.PRODUCER

# which state a task may leave for which, and who may make it do so
TASK_MOVES: dict[TaskState, dict[TaskState, tuple[Who, ...]]] = {
    T.QUEUED: {
        T.RUNNING: (AGENT,),
        T.BLOCKED: (AGENT, PERSON),
        T.SKIPPED: (PERSON,),
        T.ABORTED: (PERSON, PRODUCER),
    },
    T.RUNNING: {
        T.DONE: (AGENT,),
        T.RETRY: (AGENT, CLOCK),
        T.FAILED: (AGENT, CLOCK),
        T.ESCALATED: (AGENT, CLOCK),
        T.BLOCKED: (AGENT,),
        T.QUEUED: (AGENT,),
        T.ABORTED: (AGENT, CLOCK),
    },
    T.RETRY: {
        T.RUNNING: (AGENT,),
        T.BLOCKED: (AGENT, PERSON),
        T.ESCALATED: (PERSON,),  # undo of an answer
        T.SKIPPED: (PERSON,),
        T.ABORTED: (PERSON, PRODUCER),
    },
    T.BLOCKED: {
        T.QUEUED: (CLOCK, AGENT, PERSON),
        T.RETRY: (PERSON,),
        T.ESCALATED: (AGENT, CLOCK, PERSON),  # a checkpoint whose last need is met
        T.FAILED: (PERSON, CLOCK),
        T.SKIPPED: (PERSON,),
        T.ABORTED: (PERSON, PRODUCER),
    },
    T.ESCALATED: {
        T.QUEUED: (PERSON, AGENT, CLOCK),
        T.RETRY: (PERSON,),
        T.SKIPPED: (PERSON, CLOCK),
        T.FAILED: (PERSON, CLOCK),
        T.ABORTED: (PERSON, PRODUCER, CLOCK),
    },
    T.DONE: {},
    T.FAILED: {},
    T.SKIPPED: {},
    T.ABORTED: {},
}

FINAL = tuple(state for state, targets in TASK_MOVES.items() if not targets)
UNDER_WAY = tuple(state for state in TaskState if state not in FINAL)


def allowed_moves(state: str, who: Who) -> list[str]:
    """The states that `who` may move a task in `state` to.

    >>> allowed_moves("queued", Who.AGENT)
    ['running', 'blocked']
    """
    return [str(to) for to, may in TASK_MOVES[TaskState(state)].items() if who in may]


class FailureType(TextChoices):
    """What kind of thing went wrong: a closed set."""

    EXECUTION_ERROR = "execution_error"
    VERIFICATION_FAILED = "verification_failed"
    TIMEOUT = "timeout"
    ARCHITECT_REJECTED = "architect_rejected"


class BreakerState(TextChoices):
    """Whether an agent gets work."""

    CLOSED = "closed"
    # too many failures in a row; nothing is handed out until the time has passed
    OPEN = "open"
    # one attempt at a time shows whether the agent works again
    HALF_OPEN = "half_open"
