"""The states of an instruction, who moves it on, and how loud it is."""

from django.db.models import TextChoices


class InstructionState(TextChoices):
    """Where an instruction stands."""

    # in the agent's queue, for the first time or again; a pull moves it on, or an early ack
    QUEUED = "queued"
    # handed to the agent, awaiting its ack; ack, idle check or a person moves it on
    DELIVERED = "delivered"
    # heeded; final
    ACKNOWLEDGED = "acknowledged"
    # ignored to the end; final
    FAILED = "failed"
    # withdrawn before it was heeded; final
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
