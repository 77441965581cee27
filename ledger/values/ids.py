"""Compute with ids, which begin with their creation time in milliseconds (RFC 9562 version 7)."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

# The database creates a row's id a moment after Python took its timestamp, by another clock.
SLACK = timedelta(minutes=1)
FIRST_ID, LAST_ID = UUID(int=0), UUID(int=2**128 - 1)


def first_id(at: datetime) -> UUID:
    """Return the lowest id that can be created at `at` or later."""
    milliseconds = max(0, int(at.timestamp() * 1000))
    return UUID(int=milliseconds << 80 | 7 << 76 | 2 << 62)


def timestamp_of(id: UUID) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=id.int >> 80)
