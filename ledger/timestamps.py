"""Format timestamps for JSON."""

from datetime import datetime


def format_timestamp(at: datetime) -> str:
    """Return a UTC timestamp in ISO 8601 with milliseconds.

    >>> from datetime import UTC
    >>> format_timestamp(datetime(2026, 11, 21, 14, 5, 58, tzinfo=UTC))
    '2026-11-21T14:05:58.000Z'
    """
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
