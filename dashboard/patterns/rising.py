"""Find why a failure pattern is rising: it is new, came back, or is more frequent (pure)."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from retries.models import FailurePattern
from retries.states import TROUBLING, PatternState

HOURS = 24
LEAST = 3  # failures of a day
TIMES = 2


def find_reason(row: FailurePattern, hours: Sequence[int], *, now: datetime) -> str:
    """Return why a pattern is rising, or an empty string; `hours` are its counts of two days."""
    if row.state not in TROUBLING:
        return ""
    if row.state == PatternState.REGRESSED:
        return "regressed"
    before, today = sum(hours[:HOURS]), sum(hours[HOURS:])
    if today < LEAST:
        return ""
    if row.first_seen >= now - timedelta(hours=HOURS):
        return "new today"
    if today >= TIMES * before:
        return f"{today / before:.0f} × the day before" if before else "none the day before"
    return ""
