"""When the idle check will turn to an instruction again (pure)."""

import math
from dataclasses import dataclass
from datetime import datetime, timedelta

from dashboard.badges import urgency_badge
from dashboard.sentences.instructions import Step, loud
from dashboard.status_text import place_in_queue
from ledger.models import Instruction
from ledger.states import InstructionState


@dataclass(frozen=True, slots=True)
class Clock:
    """How the idle check runs: every so often, and when it ran last."""

    every: timedelta
    min_age: timedelta
    last_run_at: datetime | None

    def is_late(self, now: datetime) -> bool:
        """Whether two ticks in a row were missed: then nobody knows when the next one comes."""
        return self.last_run_at is None or now - self.last_run_at > 2 * self.every

    def next_check(self, delivered_at: datetime, *, now: datetime) -> datetime | None:
        """The first tick that finds the delivery old enough; None while the clock stands still."""
        if self.last_run_at is None or self.is_late(now):
            return None
        ripe = max(delivered_at + self.min_age, now)
        ticks = math.ceil((ripe - self.last_run_at) / self.every)
        return self.last_run_at + max(ticks, 1) * self.every


@dataclass(frozen=True, slots=True)
class Forecast:
    """What happens to a delivered instruction if nobody answers.

    `at` is None while that depends on something else: on the agent's queue, which must be empty,
    or on a clock that stands still.
    """

    gives_up: bool
    at: datetime | None
    queue_busy: bool = False

    def seconds(self, now: datetime) -> int:
        return max(0, math.ceil((self.at - now).total_seconds())) if self.at else 0


def forecast(
    *,
    delivered_at: datetime,
    retry_count: int,
    max_retries: int,
    queue_busy: bool,
    clock: Clock,
    now: datetime,
) -> Forecast:
    """What the idle check will do with a tracked instruction that was delivered."""
    gives_up = retry_count >= max_retries
    if queue_busy:
        return Forecast(gives_up, None, queue_busy=True)
    return Forecast(gives_up, clock.next_check(delivered_at, now=now))


def describe_next_step(
    row: Instruction, *, before: int, forecast: Forecast | None, now: datetime
) -> Step | None:
    """What happens next, unless somebody answers; None when it is over."""
    if row.state == InstructionState.QUEUED:
        text = f"Delivered when {row.agent.name} asks: {place_in_queue(before)}"
        return Step(text, "s-delivered")
    if forecast is None:
        return None
    retries = row.retry_count + 1
    text, icon = f"Queued again as {loud(retries)}", urgency_badge(retries).icon
    if forecast.gives_up:
        text, icon = "Tenfour gives up", "u-3"
    left = forecast.seconds(now) if forecast.at else None
    return Step(f"{text}, if nobody answers", icon, note=describe_delay(forecast), countdown=left)


def describe_delay(forecast: Forecast) -> str:
    if forecast.queue_busy:
        return "not before its queue is empty"
    return "" if forecast.at else "not before the clock runs again"
