"""The states of instructions, tasks and messages, their moves, and the urgency of instructions."""

from django.db.models import TextChoices


class InstructionState(TextChoices):
    """The state of an instruction."""

    # in the agent's queue, for the first time or again; a pull or an early ack moves it
    QUEUED = "queued"
    # delivered to the agent, awaiting its ack; an ack, the idle check or a person moves it
    DELIVERED = "delivered"
    # acknowledged; final
    ACKNOWLEDGED = "acknowledged"
    # never acknowledged despite all reminders; final
    FAILED = "failed"
    # cancelled before it was acknowledged; final
    CANCELLED = "cancelled"


# the states that a tracked instruction can still leave
UNSETTLED = (InstructionState.QUEUED, InstructionState.DELIVERED)
SETTLED = tuple(state for state in InstructionState if state not in UNSETTLED)

# the legal moves of an instruction
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
    """The urgency of a delivery; derived from the number of retries before it, never stored."""

    FIRST = "first"
    AGAIN = "again"
    IMPORTANT = "important"
    URGENT = "urgent"


LEVELS = tuple(Urgency)
PREFIXES = {Urgency.IMPORTANT: "**IMPORTANT:** ", Urgency.URGENT: "**URGENT:** "}


def urgency_of(retry_count: int) -> Urgency:
    """Return the urgency of the delivery after `retry_count` retries.

    >>> [str(urgency_of(n)) for n in range(5)]
    ['first', 'again', 'important', 'urgent', 'urgent']
    """
    return LEVELS[min(retry_count, len(LEVELS) - 1)]


class Way(TextChoices):
    """The way by which an instruction reaches its agent."""

    TOOL_CALL = "tool_call", "with a tool call"
    STOP = "stop", "when it wanted to stop"
    PROMPT = "prompt", "with a prompt"
    HEARTBEAT = "heartbeat", "at a heartbeat"
    PULL = "pull", "by a pull"
    MCP = "mcp", "over MCP"
    CLI = "cli", "by the command line"


def prefixed(content: str, retry_count: int) -> str:
    """Return the text that the agent gets: the content after the prefix of its urgency.

    >>> prefixed("Run the tests", 2)
    '**IMPORTANT:** Run the tests'
    """
    return PREFIXES.get(urgency_of(retry_count), "") + content


def count_reminders(retry_count: int, holds: int | None) -> int:
    """Return how often an agent was reminded: by requeues, or by holding its stop."""
    return max(retry_count, (holds or 1) - 1)


# ---- tasks


class TaskState(TextChoices):
    """The state of a task."""

    # in its agent's queue; a claim or a start moves it
    QUEUED = "queued"
    # an attempt is running; its report, its release or the end of its lease moves it
    RUNNING = "running"
    # failed and will be retried at `due_at`; a claim or a start moves it
    RETRY = "retry"
    # waits for what `blocked_reason` names; the clock or a person moves it
    BLOCKED = "blocked"
    # a person is asked; the answer moves it
    ESCALATED = "escalated"
    # finished with a result; final
    DONE = "done"
    # failed permanently, with a dead letter; final
    FAILED = "failed"
    # a person chose to continue without it; final
    SKIPPED = "skipped"
    # stopped by a person or a producer; final
    ABORTED = "aborted"


class BlockedReason(TextChoices):
    """The reason why a task is blocked."""

    DEPENDENCY = "dependency"
    DEPENDENCY_SKIPPED = "dependency_skipped"
    BREAKER_OPEN = "breaker_open"
    # every page, the command line, and the docs use the words of this label
    REPORTED = "reported", "reported blocked"
    # waits for its `not_before`; the clock queues it then
    NOT_BEFORE = "not_before"


class Outcome(TextChoices):
    """The outcome of an attempt, null while it is live; an expired attempt is a failure."""

    SUCCESS = "success"
    FAILURE = "failure"
    RELEASED = "released"
    BLOCKED = "blocked"
    ESCALATED = "escalated"
    ABORTED = "aborted"


class Proof(TextChoices):
    """The evidence that a done task rests on."""

    # its check is known to have passed on the tree that was left
    PROVEN = "proven"
    # its check passed, and then files changed
    STALE = "stale"
    # the agent says so
    CLAIMED = "claimed"
    # a person accepted it
    PERSON = "person"


def proof_of(state: str, proof: str | None) -> str | None:
    # A task that was done before proofs were stored counts as claimed.
    return proof or (str(Proof.CLAIMED) if state == TaskState.DONE else None)


class EvidenceLevel(TextChoices):
    """The evidence that a done task needs: set on the task, else its plan, else its project."""

    # nothing: the proof is only recorded
    RECORD = "record"
    # a claim without a check is sent back to the agent once
    ASK = "ask"
    # without proof it goes to a person
    REQUIRE = "require"


class FileScope(TextChoices):
    """The tasks of a project of which no two with the same files run at once."""

    OFF = "off"
    # tasks of plans, unless their plan says otherwise
    PLANS = "plans"
    ALL = "all"


class RetryOn(TextChoices):
    """The members of a pool that may retry a task."""

    # any that has room
    ANY = "any"
    # the one that made the last attempt
    SAME = "same"
    # not the one whose attempt failed last, while another one can
    OTHER = "other"


class Who(TextChoices):
    """The parties that make moves."""

    AGENT = "agent"
    CLOCK = "clock"
    PERSON = "person"
    PRODUCER = "producer"


T, AGENT, CLOCK, PERSON, PRODUCER = TaskState, Who.AGENT, Who.CLOCK, Who.PERSON, Who.PRODUCER

# the legal moves of a task, and who may make each
TASK_MOVES: dict[TaskState, dict[TaskState, tuple[Who, ...]]] = {
    T.QUEUED: {
        T.RUNNING: (AGENT,),
        T.BLOCKED: (AGENT, PERSON),
        T.ESCALATED: (CLOCK,),  # a budget is used up
        T.DONE: (PERSON, PRODUCER),  # ticked in its plan's file
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
        T.ESCALATED: (PERSON, CLOCK),  # undo of an answer; a budget is used up
        T.DONE: (PERSON, PRODUCER),  # ticked in its plan's file
        T.SKIPPED: (PERSON,),
        T.ABORTED: (PERSON, PRODUCER),
    },
    T.BLOCKED: {
        T.QUEUED: (CLOCK, AGENT, PERSON),
        T.RETRY: (PERSON,),
        T.ESCALATED: (AGENT, CLOCK, PERSON),  # a checkpoint whose last need is met
        T.DONE: (PERSON, PRODUCER),  # ticked in its plan's file
        T.FAILED: (PERSON, CLOCK),
        T.SKIPPED: (PERSON,),
        T.ABORTED: (PERSON, PRODUCER),
    },
    T.ESCALATED: {
        T.DONE: (PERSON,),  # accepted without proof
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


# the moves that a caller can request while a task is blocked, by the reason; every other move
# follows from something else, such as a met need
BLOCKED_MOVES: dict[BlockedReason, dict[Who, tuple[TaskState, ...]]] = {
    BlockedReason.DEPENDENCY: {PERSON: (T.SKIPPED, T.ABORTED), PRODUCER: (T.ABORTED,)},
    BlockedReason.DEPENDENCY_SKIPPED: {
        PERSON: (T.QUEUED, T.SKIPPED, T.ABORTED),
        PRODUCER: (T.ABORTED,),
    },
    BlockedReason.BREAKER_OPEN: {PERSON: (T.SKIPPED, T.ABORTED), PRODUCER: (T.ABORTED,)},
    BlockedReason.REPORTED: {PERSON: (T.QUEUED, T.RETRY, T.SKIPPED, T.FAILED, T.ABORTED)},
    BlockedReason.NOT_BEFORE: {PERSON: (T.SKIPPED, T.ABORTED), PRODUCER: (T.ABORTED,)},
}


# the moves that a party can make only indirectly: a person by skipping a task that this one needs
# or by accepting it without proof, a producer by aborting the plan, either of them by importing a
# file in which the task is ticked
INDIRECT_MOVES: dict[TaskState, dict[Who, tuple[TaskState, ...]]] = {
    T.QUEUED: {PERSON: (T.BLOCKED, T.DONE), PRODUCER: (T.DONE,)},
    T.RETRY: {PERSON: (T.DONE,), PRODUCER: (T.DONE,)},
    T.ESCALATED: {PRODUCER: (T.ABORTED,), PERSON: (T.DONE,)},
}


def list_sources(to: TaskState) -> list[TaskState]:
    return [state for state, targets in TASK_MOVES.items() if to in targets]


def allowed_moves(state: str, who: Who | None, *, blocked_reason: str | None = None) -> list[str]:
    """Return the states to which `who` may move a task, by itself; None may move nothing.

    >>> allowed_moves("queued", Who.AGENT)
    ['running', 'blocked']
    >>> allowed_moves("blocked", Who.PERSON, blocked_reason="dependency")
    ['skipped', 'aborted']
    >>> allowed_moves("escalated", Who.PRODUCER)
    []
    """
    start = TaskState(state)
    indirect = INDIRECT_MOVES.get(start, {}).get(who, ()) if who else ()
    moves = [to for to, may in TASK_MOVES[start].items() if who in may and to not in indirect]
    if blocked_reason is not None:
        direct = BLOCKED_MOVES[BlockedReason(blocked_reason)].get(who, ()) if who else ()
        moves = [to for to in moves if to in direct]
    return [str(to) for to in moves]


class FailureType(TextChoices):
    """The type of a failure: a closed set."""

    EXECUTION_ERROR = "execution_error"
    VERIFICATION_FAILED = "verification_failed"
    TIMEOUT = "timeout"
    ARCHITECT_REJECTED = "architect_rejected"


class BreakerState(TextChoices):
    """The state of an agent's circuit breaker."""

    CLOSED = "closed"
    # too many consecutive failures; the agent gets no tasks until the time has passed
    OPEN = "open"
    # one probe at a time shows whether the agent works again
    HALF_OPEN = "half_open"


# ---- sessions


class MessageState(TextChoices):
    """The state of a session's message."""

    # in the buffer; a batch takes it
    PENDING = "pending"
    # in a batch whose tracker is running
    RUNNING = "running"
    # processed; final
    SUCCESS = "success"
    # its batch failed; only a person or a program returns it to the buffer
    FAILED = "failed"
    # stored in a session without task tracking, never processed; final
    DISABLED = "disabled"


# the legal moves of a message; a lost worker's messages return to the buffer once
MESSAGE_MOVES: dict[MessageState, tuple[MessageState, ...]] = {
    MessageState.PENDING: (MessageState.RUNNING,),
    MessageState.RUNNING: (MessageState.SUCCESS, MessageState.FAILED, MessageState.PENDING),
    MessageState.SUCCESS: (),
    MessageState.FAILED: (MessageState.PENDING, MessageState.SUCCESS),
    MessageState.DISABLED: (),
}


class SessionTaskState(TextChoices):
    """The state of a task that was found in a session; a tracker may set any of them."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"
    # the agent gave it up: its next list or plan does not have it
    DROPPED = "dropped"


class BatchOutcome(TextChoices):
    """The outcome of a batch, null while it runs."""

    SUCCESS = "success"
    FAILED = "failed"
    # its worker was lost; the messages that were still running returned to the buffer, or failed
    LOST = "lost"
