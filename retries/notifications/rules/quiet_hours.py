"""The end of quiet hours (pure)."""

from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo


def quiet_end(
    now: datetime, *, starts: time | None, ends: time | None, timezone: str
) -> datetime | None:
    """Return when the quiet hours that `now` lies in end, or None outside of them.

    They may span midnight; the same time twice means never.

    >>> from datetime import UTC
    >>> at = datetime(2026, 11, 22, 3, 0, tzinfo=UTC)
    >>> str(quiet_end(at, starts=time(22), ends=time(7), timezone="UTC"))
    '2026-11-22 07:00:00+00:00'
    >>> quiet_end(at, starts=time(4), ends=time(7), timezone="UTC")
    """
    if starts is None or ends is None:
        return None
    zone = ZoneInfo(timezone)
    here = now.astimezone(zone)
    for day in (here.date() - timedelta(days=1), here.date()):
        begin = datetime.combine(day, starts, zone)
        end = datetime.combine(day + timedelta(days=1) if ends < starts else day, ends, zone)
        if begin <= here < end:
            return end.astimezone(now.tzinfo)
    return None
