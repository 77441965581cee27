"""Describe the windows of an account's limits: what is used, and when it will be full."""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from dashboard.wording.formatting import rough_duration
from ledger.models import AccountWindow
from ledger.values.account_windows import Forecast, LimitWindow, WindowFact, forecast

NEAR = 0.8
NAMES = {"five_hours": "5 hours", "week": "Week", "credit": "Credit"}
SOURCES = {"claude": "Claude Code", "codex": "Codex", "message": "an error", "client": "its client"}
WINDOW_COLUMNS = ("window", "used", "resets_at", "source", "seen_at", "facts")


@dataclass(frozen=True)
class AccountLimit:
    """A window of an account as it is now, with the newest figure about it."""

    window: str
    used: float
    resets_at: datetime | None
    source: str
    seen_at: datetime
    facts: int
    now: datetime

    @classmethod
    def read(cls, row: AccountWindow, *, now: datetime) -> "AccountLimit":
        return cls(row.window, row.used, row.resets_at, row.source, row.seen_at, row.facts, now=now)

    @property
    def is_over(self) -> bool:
        """Return whether it has been reset since: the figure says nothing about what follows."""
        return self.resets_at is not None and self.resets_at <= self.now

    @property
    def label(self) -> str:
        return NAMES.get(self.window, self.window)

    @property
    def told_by(self) -> str:
        return SOURCES.get(self.source, self.source)

    @property
    def percent(self) -> int:
        # A window that is not full is not shown as if it were.
        return 100 if self.used >= 1 else min(99, round(100 * self.used))

    @property
    def tone(self) -> str:
        return "red" if self.used >= 1 else "amber" if self.used >= NEAR else ""

    @cached_property
    def forecast(self) -> Forecast:
        """When it will be full at the pace since it began."""
        fact = WindowFact(LimitWindow(self.window), self.used, self.resets_at, self.seen_at)
        return forecast(fact, facts=self.facts, now=self.now) or Forecast()

    @property
    def full_at(self) -> datetime | None:
        return self.forecast.full_at

    @property
    def waits_for(self) -> str:
        """How long it will then be full."""
        if self.full_at is None or self.resets_at is None:
            return ""
        return rough_duration((self.resets_at - self.full_at).total_seconds())
