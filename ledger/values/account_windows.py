"""Define what is known about a window of an account's limit (pure)."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum


class LimitWindow(StrEnum):
    """A window of time in which the use of an account is limited."""

    FIVE_HOURS = "five_hours"
    WEEK = "week"
    CREDIT = "credit"


class LimitSource(StrEnum):
    """The source of a fact about a window: an agent's record, an error, or the client."""

    CLAUDE = "claude"
    CODEX = "codex"
    MESSAGE = "message"
    CLIENT = "client"


# the longest wait for a limit to reset
MOST_WAIT = timedelta(days=8)
LENGTHS = {LimitWindow.FIVE_HOURS: timedelta(hours=5), LimitWindow.WEEK: timedelta(days=7)}
# A forecast needs some use over some time, told by some facts.
LEAST_SHARE = 0.05
LEAST_FACTS = 20
# The share of a window whose calls still pass, although all of it is used: the account has credits.
ALMOST = 0.99


@dataclass(frozen=True, slots=True)
class WindowFact:
    """The used share of a window at a time; calls are refused from 1."""

    window: LimitWindow
    used: float
    resets_at: datetime | None
    seen_at: datetime
    # An idle session's status line shows old figures: `seen_at` is only when they were sent.
    may_be_old: bool = False

    @property
    def waits_until(self) -> datetime | None:
        """Return when calls pass again, at most 8 days later; None if they pass or if unknown."""
        if self.used < 1 or self.resets_at is None:
            return None
        return min(self.resets_at, self.seen_at + MOST_WAIT)


def newest_facts(facts: Iterable[WindowFact]) -> list[WindowFact]:
    """Return the newest fact about each window, the last one of those at the same time."""
    found: dict[LimitWindow, WindowFact] = {}
    for fact in facts:
        known = found.get(fact.window)
        if known is None or fact.seen_at >= known.seen_at:
            found[fact.window] = fact
    return list(found.values())


def latest_wait(facts: Iterable[WindowFact], *, now: datetime) -> datetime | None:
    """Return when the last of these windows that are at their limit resets; None if none is."""
    waits = [until for fact in facts if (until := fact.waits_until) and until > now]
    return max(waits, default=None)


@dataclass(frozen=True, slots=True)
class Forecast:
    """The forecast of a running window; `full_at` is None if it resets before it is full."""

    full_at: datetime | None = None
    has_few_data: bool = False


def forecast(fact: WindowFact, *, facts: int, now: datetime) -> Forecast | None:
    """Return the forecast of a window with so many facts; None if it is full or none can be."""
    length = LENGTHS.get(fact.window)
    if length is None or fact.used >= 1 or fact.resets_at is None or fact.resets_at <= now:
        return None
    passed = fact.seen_at - (fact.resets_at - length)
    if passed > length:
        return None
    if facts < LEAST_FACTS or fact.used < LEAST_SHARE or passed < LEAST_SHARE * length:
        return Forecast(has_few_data=True)
    full_at = fact.seen_at + passed * ((1 - fact.used) / fact.used)
    return Forecast(full_at if now < full_at < fact.resets_at else None)
