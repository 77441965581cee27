"""Forecast when the idle check will resend or give up an instruction (pure)."""

import math
from dataclasses import dataclass
from datetime import datetime, timedelta

from dashboard.sentences.instructions import Step, urgency_word
from dashboard.wording.badges import urgency_badge
from dashboard.wording.status_text import place_in_queue
from ledger.models import Instruction
from ledger.states import InstructionState


@dataclass(frozen=True, slots=True)
class Clock:
    """The idle check's interval, the age from which it acts, and its last run."""

    every: timedelta
    min_age: timedelta
    last_run_at: datetime | None

    def is_late(self, now: datetime) -> bool:
        # After two missed ticks the next one is unknown.
        return self.last_run_at is None or now - self.last_run_at > 2 * self.every

    def next_check(self, delivered_at: datetime, *, now: datetime) -> datetime | None:
        """Return the first tick that finds the delivery old enough; None if the clock is late."""
        if self.last_run_at is None or self.is_late(now):
            return None
        ripe = max(delivered_at + self.min_age, now)
        ticks = math.ceil((ripe - self.last_run_at) / self.every)
        return self.last_run_at + max(ticks, 1) * self.every


@dataclass(frozen=True, slots=True)
class Forecast:
    """The fate of a delivered instruction without an acknowledgment.

    `at` is None if the time is unknown: the agent's queue has to empty first, or the clock is late.
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
    """Return what the idle check will do with a delivered, tracked instruction."""
    gives_up = retry_count >= max_retries
    if queue_busy:
        return Forecast(gives_up, None, queue_busy=True)
    return Forecast(gives_up, clock.next_check(delivered_at, now=now))


def describe_next_step(
    row: Instruction, *, ahead: int, forecast: Forecast | None, now: datetime
) -> Step | None:
    """Return what happens next without an acknowledgment, or None if nothing does."""
    if row.state == InstructionState.QUEUED:
        text = f"Delivered when {row.agent.name} checks in: {place_in_queue(ahead)}"
        return Step(text, "s-delivered")
    if forecast is None:
        return None
    retries = row.retry_count + 1
    text, icon = f"Queued again as {urgency_word(retries)}", urgency_badge(retries).icon
    if forecast.gives_up:
        text, icon = "Tenfour gives up", "u-3"
    left = forecast.seconds(now) if forecast.at else None
    return Step(f"{text} unless acknowledged", icon, note=describe_delay(forecast), countdown=left)


def describe_delay(forecast: Forecast) -> str:
    if forecast.queue_busy:
        return "not until its queue is empty"
    return "" if forecast.at else "not until the clock runs again"
