"""Which buttons an instruction gets: only those whose move is allowed (pure)."""

from dashboard.actions import Action
from ledger.models import Instruction
from ledger.states import INSTRUCTION_MOVES, InstructionState

SEND_AGAIN = Action("send-again", "Send again now", key="r")
RESEND = Action("send-again", "Send again", key="r")  # of what was given up, as a new instruction
ACKNOWLEDGE = Action("acknowledge", "Mark as acknowledged")
CANCEL = Action(
    "withdraw",
    "Cancel",
    question="Cancel this instruction?",
    confirm="Cancel instruction",
    consequence="It is not delivered again, and Tenfour stops waiting for an acknowledgment.",
)
# the verbs of operations that the list offers for many instructions
BULK_VERBS = ("instruction.send_again", "instruction.cancel")
ACTIONS = {action.verb: action for action in (SEND_AGAIN, ACKNOWLEDGE, CANCEL)}


def allowed_actions(row: Instruction) -> list[Action]:
    """Return the buttons for an instruction."""
    moves = INSTRUCTION_MOVES[InstructionState(row.state)]
    allowed = []
    if InstructionState.QUEUED in moves and row.tracked and row.retry_count < row.max_retries:
        allowed.append(SEND_AGAIN)
    if row.state == InstructionState.FAILED:
        allowed.append(RESEND)
    if InstructionState.ACKNOWLEDGED in moves and row.tracked:
        allowed.append(ACKNOWLEDGE)
    if InstructionState.CANCELLED in moves and (
        row.tracked or row.state == InstructionState.QUEUED
    ):
        allowed.append(CANCEL)
    return allowed
