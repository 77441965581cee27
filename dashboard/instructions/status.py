"""Describe the status of an instruction for the list's last column (pure)."""

import math
from datetime import datetime

from dashboard.instructions.forecast import Forecast
from dashboard.wording.formatting import counted, duration
from dashboard.wording.status_text import StatusText, place_in_queue
from ledger.models import Instruction
from ledger.states import InstructionState
from retries.tasks.holds import MOST_HOLDS

BAR_WIDTH = 64
PIXELS_PER_E = 12.3  # the bar is logarithmic: 1 s is 8 pixels, 1 m is 50


def describe_status(
    row: Instruction, *, ahead: int, forecast: Forecast | None, now: datetime
) -> StatusText:
    match row.state:
        case InstructionState.ACKNOWLEDGED if row.acknowledged_at:
            return describe_acknowledgment(
                row, (row.acknowledged_at - row.queued_at).total_seconds()
            )
        case InstructionState.FAILED:
            late = ", answered too late" if row.late_ack_at else ""
            return StatusText(f"after {describe_last_try(row)}{late}", "red")
        case InstructionState.CANCELLED:
            return StatusText("withdrawn, answered since" if row.late_ack_at else "withdrawn")
        case InstructionState.QUEUED:
            return StatusText(place_in_queue(ahead))
    return (
        StatusText("no answer expected") if forecast is None else describe_forecast(forecast, now)
    )


def describe_acknowledgment(row: Instruction, seconds: float) -> StatusText:
    bar = min(BAR_WIDTH, max(1.0, PIXELS_PER_E * math.log1p(max(seconds, 0))))
    said = f"{row.outcome}, " if row.outcome in ("declined", "accepted") else ""
    slow = row.deliveries > 1
    return StatusText(f"{said}{duration(seconds)}", "plain", bar=round(bar, 1), slow=slow)


def describe_forecast(forecast: Forecast, now: datetime) -> StatusText:
    what, tone = ("gives up", "red") if forecast.gives_up else ("again", "amber")
    if forecast.queue_busy:
        return StatusText(f"{what} once its queue is empty", tone, "clock")
    if forecast.at is None:
        return StatusText(f"{what} when the clock runs", tone, "clock")
    return StatusText(f"{what} in", tone, "clock", countdown=forecast.seconds(now))


def describe_last_try(row: Instruction) -> str:
    """Return what was tried before giving up: the holds of a stop, or the retries."""
    if row.holds and row.holds >= MOST_HOLDS:
        return counted(row.holds, "hold")
    return counted(row.retry_count, "retry", "retries")
