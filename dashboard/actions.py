"""What a person can do with an instruction, task, pattern or agent: only what is allowed."""

from dataclasses import dataclass
from datetime import datetime

from ledger.models import DeadLetter, Instruction, Task
from ledger.states import (
    INSTRUCTION_MOVES,
    BlockedReason,
    BreakerState,
    InstructionState,
    TaskState,
    Who,
    allowed_moves,
)
from retries.states import PATTERN_MOVES, PatternState


@dataclass(frozen=True, slots=True)
class Offer:
    """A button: where it posts to, what it says, its key, and the question it asks first."""

    verb: str
    label: str
    key: str = ""
    question: str = ""
    consequence: str = ""
    icon: str = ""


SEND_AGAIN = Offer("send-again", "Send again now", key="r")
ACKNOWLEDGE = Offer("acknowledge", "Mark as acknowledged")
WITHDRAW = Offer(
    "withdraw",
    "Withdraw",
    question="Withdraw this instruction?",
    consequence="It is not delivered again and nobody waits for an answer.",
)
OFFERS = {offer.verb: offer for offer in (SEND_AGAIN, ACKNOWLEDGE, WITHDRAW)}


def offers(row: Instruction) -> list[Offer]:
    """The buttons for this row."""
    may = INSTRUCTION_MOVES[InstructionState(row.state)]
    found = []
    if InstructionState.QUEUED in may and row.tracked and row.retry_count < row.max_retries:
        found.append(SEND_AGAIN)
    if InstructionState.ACKNOWLEDGED in may and row.tracked:
        found.append(ACKNOWLEDGE)
    if InstructionState.CANCELLED in may and (row.tracked or row.state == InstructionState.QUEUED):
        found.append(WITHDRAW)
    return found


# ---- tasks

RETRY_NOW = Offer("retry-now", "Retry now", key="r", icon="play")
SKIP = Offer(
    "skip",
    "Skip",
    key="s",
    icon="s-skipped",
    question="Go on without it?",
    consequence="It counts as met for whatever depends on it, and this can’t be taken back.",
)
ABORT = Offer(
    "abort",
    "Abort",
    key="a",
    icon="s-aborted",
    question="Abort it?",
    consequence="What depends on it stays blocked. One that runs is told to stop and ends when its "
    "agent reports or its lease runs out. This can’t be taken back.",
)
UNBLOCK = Offer("unblock", "Unblock", key="u", icon="play")
TASK_OFFERS = {offer.verb: offer for offer in (RETRY_NOW, UNBLOCK, SKIP, ABORT)}


def task_offers(row: Task, now: datetime) -> list[Offer]:
    """The buttons for this task: the moves that a person may make, and what is none."""
    may = allowed_moves(row.state, Who.PERSON)
    found = []
    if row.state == TaskState.RETRY and row.due_at and row.due_at > now:
        found.append(RETRY_NOW)
    if row.blocked_reason == BlockedReason.DEPENDENCY_SKIPPED:
        found.append(UNBLOCK)
    if TaskState.SKIPPED in may:
        found.append(SKIP)
    asked = row.state == TaskState.RUNNING and row.abort_requested_at is None
    if TaskState.ABORTED in may or asked:  # one that runs can only be asked to stop
        found.append(ABORT)
    return found


# ---- dead letters

REPLAY = Offer(
    "replay",
    "Replay",
    key="r",
    icon="undo",
    question="Replay it?",
    consequence="A new task is made of its payload, at attempt 1, and takes the old one’s place "
    "for whatever depends on it.",
)
DISMISS = Offer(
    "dismiss",
    "Dismiss",
    key="d",
    icon="trash",
    question="Dismiss it?",
    consequence="It does not run again. Its failure records are kept.",
)
LETTER_OFFERS = {offer.verb: offer for offer in (REPLAY, DISMISS)}


def letter_offers(letter: DeadLetter) -> list[Offer]:
    """The buttons for it; what an aborted plan gave up is run again by restarting the plan."""
    if letter.closed_at:
        return []
    plan = letter.task.plan
    return [DISMISS] if plan and plan.aborted_at else [REPLAY, DISMISS]


# ---- patterns

RETRY_ALL = Offer(
    "retry",
    "Try all again",
    key="r",
    icon="undo",
    question="Try all of it again?",
    consequence="Dead letters are replayed as new tasks, retries wait no longer, and open "
    "questions are answered with a retry.",
)
RESOLVE = Offer("resolve", "Resolve", key="s", icon="check")
IGNORE = Offer("ignore", "Ignore", key="i", icon="s-skipped")
REOPEN = Offer("reopen", "Open again", key="o", icon="undo")
PATTERN_OFFERS = {offer.verb: offer for offer in (RETRY_ALL, RESOLVE, IGNORE, REOPEN)}


def pattern_offers(state: str, *, stuck: int) -> list[Offer]:
    """The buttons for a pattern of which so many tasks stand still."""
    may = PATTERN_MOVES[PatternState(state)]
    moves = (
        (PatternState.RESOLVED, RESOLVE),
        (PatternState.IGNORED, IGNORE),
        (PatternState.OPEN, REOPEN),
    )
    found = [offer for to, offer in moves if to in may and to != state]
    return [RETRY_ALL, *found] if stuck else found


# ---- agents: their questions go on with the agent's name, what they mean is told in the template

TRIP = Offer("trip", "Trip breaker", question="Trip the breaker of", icon="c-open")
CLOSE = Offer("close", "Close breaker", question="Close the breaker of", icon="c-closed")
RESET = Offer("reset", "Reset", question="Reset", icon="s-aborted")
AGENT_OFFERS = {offer.verb: offer for offer in (TRIP, CLOSE, RESET)}


def agent_offers(state: BreakerState) -> list[Offer]:
    """What is asked about first, by where the agent's breaker stands."""
    found = [TRIP] if state != BreakerState.OPEN else []
    found += [CLOSE] if state != BreakerState.CLOSED else []
    return [*found, RESET]
