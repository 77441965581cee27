"""Find when a digest is due, and the time that it covers (pure)."""

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

MONDAY = 0
DAY = timedelta(days=1)


def find_next(after: datetime, *, hour: int, weekly: bool, timezone: str) -> datetime:
    """Return the first time after another one at which a digest is due.

    An hour that the clocks skip is an hour later, and one that comes twice is the first.

    >>> at = datetime(2026, 3, 28, 12, tzinfo=UTC)
    >>> str(find_next(at, hour=2, weekly=False, timezone="Europe/Berlin"))
    '2026-03-29 01:00:00+00:00'
    >>> str(find_next(at, hour=8, weekly=True, timezone="America/New_York"))
    '2026-03-30 12:00:00+00:00'
    """
    zone = ZoneInfo(timezone)
    day = after.astimezone(zone).date() - DAY
    while True:
        due = datetime.combine(day, time(hour), zone).astimezone(UTC)
        if due > after and (day.weekday() == MONDAY or not weekly):
            return due
        day += DAY


def find_last(until: datetime, *, hour: int, weekly: bool, timezone: str) -> datetime:
    """Return the last time up to another one at which a digest was due."""
    rule = {"hour": hour, "weekly": weekly, "timezone": timezone}
    last = find_next(until - (8 if weekly else 2) * DAY, **rule)  # type: ignore[arg-type]
    while (following := find_next(last, **rule)) <= until:  # type: ignore[arg-type]
        last = following
    return last
