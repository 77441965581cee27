"""What the last column of the list says: how long the answer took, or what is waited for (pure)."""

import math
from dataclasses import dataclass
from datetime import datetime

from dashboard.formatting import counted, duration
from dashboard.instructions.forecast import Forecast
from ledger.models import Instruction
from ledger.states import InstructionState

BAR_WIDTH = 64
AHEAD_CAP = 100  # nobody counts further than that
PIXELS_PER_E = 12.3  # the bar is logarithmic: 1 s is 8 pixels, 1 m is 50


@dataclass(frozen=True, slots=True)
class Answer:
    """Words; a bar before them where a time was measured, seconds behind them that count down."""

    text: str
    tone: str = "mute"
    icon: str = ""
    bar: float | None = None
    slow: bool = False
    countdown: int | None = None

    @property
    def css(self) -> str:
        return "mute" if self.tone == "mute" else f"due due--{self.tone}"


def answer(row: Instruction, *, ahead: int, forecast: Forecast | None, now: datetime) -> Answer:
    """What became of an instruction, or what happens to it next."""
    match row.state:
        case InstructionState.ACKNOWLEDGED if row.acknowledged_at:
            return acknowledged(row, (row.acknowledged_at - row.queued_at).total_seconds())
        case InstructionState.FAILED:
            late = ", answered too late" if row.late_ack_at else ""
            return Answer(f"after {counted(row.retry_count, 'retry', 'retries')}{late}", "red")
        case InstructionState.CANCELLED:
            return Answer("withdrawn, answered since" if row.late_ack_at else "withdrawn")
        case InstructionState.QUEUED:
            return Answer(place_in_queue(ahead))
    return Answer("no answer expected") if forecast is None else awaited(forecast, now)


def acknowledged(row: Instruction, seconds: float) -> Answer:
    bar = min(BAR_WIDTH, max(1.0, PIXELS_PER_E * math.log1p(max(seconds, 0))))
    said = f"{row.outcome}, " if row.outcome in ("declined", "accepted") else ""
    slow = row.deliveries > 1
    return Answer(f"{said}{duration(seconds)}", "plain", bar=round(bar, 1), slow=slow)


def place_in_queue(ahead: int) -> str:
    if ahead == 0:
        return "next in its queue"
    return f"{AHEAD_CAP - 1}+ ahead of it" if ahead >= AHEAD_CAP else f"{ahead} ahead of it"


def awaited(forecast: Forecast, now: datetime) -> Answer:
    what, tone = ("gives up", "red") if forecast.gives_up else ("again", "amber")
    if forecast.queue_busy:
        return Answer(f"{what} once its queue is empty", tone, "clock")
    if forecast.at is None:
        return Answer(f"{what} when the clock runs", tone, "clock")
    return Answer(f"{what} in", tone, "clock", countdown=forecast.seconds(now))
