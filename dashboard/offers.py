"""What a person can do with one instruction: only what the table of moves allows."""

from dataclasses import dataclass

from ledger.models import Instruction
from ledger.states import INSTRUCTION_MOVES, InstructionState

State = InstructionState


@dataclass(frozen=True, slots=True)
class Offer:
    """A button: where it posts to, what it says, its key, and the question it asks first."""

    verb: str
    label: str
    key: str = ""
    question: str = ""
    consequence: str = ""


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
    may = INSTRUCTION_MOVES[State(row.state)]
    found = []
    if State.QUEUED in may and row.tracked and row.retry_count < row.max_retries:
        found.append(SEND_AGAIN)
    if State.ACKNOWLEDGED in may and row.tracked:
        found.append(ACKNOWLEDGE)
    if State.CANCELLED in may and (row.tracked or row.state == State.QUEUED):
        found.append(WITHDRAW)
    return found
