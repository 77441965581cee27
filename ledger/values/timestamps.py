"""Format timestamps for JSON."""

from datetime import UTC, datetime


def format_timestamp(at: datetime) -> str:
    """Return a UTC timestamp in ISO 8601 with milliseconds.

    >>> from datetime import timedelta, timezone
    >>> format_timestamp(datetime(2026, 11, 21, 14, 5, 58, tzinfo=UTC))
    '2026-11-21T14:05:58.000Z'
    >>> format_timestamp(datetime(2026, 11, 21, 16, 5, 58, tzinfo=timezone(timedelta(hours=2))))
    '2026-11-21T14:05:58.000Z'
    """
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
