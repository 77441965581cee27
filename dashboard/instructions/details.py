"""Describe one instruction for its page and for its expanded row: status, text and history."""

from dataclasses import dataclass
from datetime import datetime

from dashboard.instructions import queries
from dashboard.instructions.forecast import Clock, describe_next_step
from dashboard.instructions.queries import ListedInstruction
from dashboard.instructions.status import describe_status
from dashboard.lists.shared_queries import list_history
from dashboard.sentences import instructions as sentences
from dashboard.sentences.instructions import Received, Step
from dashboard.wording.status_text import StatusText
from ledger.models import Instruction


@dataclass(frozen=True, slots=True)
class InstructionDetails:
    """An instruction with its status, its text and its history."""

    row: Instruction
    status: StatusText
    received: Received
    steps: list[Step]
    next_step: Step | None


def describe_details(
    listed: ListedInstruction, clock: Clock, *, now: datetime
) -> InstructionDetails:
    row, forecast = listed.row, queries.forecast_of(listed, clock, now=now)
    return InstructionDetails(
        row=row,
        status=describe_status(row, ahead=listed.ahead, forecast=forecast, now=now),
        received=sentences.describe_received(row),
        steps=sentences.describe_steps(list_history(row.id), agent=row.agent.name),
        next_step=describe_next_step(row, ahead=listed.ahead, forecast=forecast, now=now),
    )
