"""What ids tell: they begin with the milliseconds at which they were made (RFC 9562, version 7)."""

from datetime import datetime, timedelta
from uuid import UUID

# A row's id is made a moment after its time was taken, by another clock perhaps.
SLACK = timedelta(minutes=1)


def first_id(at: datetime) -> UUID:
    """The lowest id that can be made from `at` on."""
    milliseconds = max(0, int(at.timestamp() * 1000))
    return UUID(int=milliseconds << 80 | 7 << 76 | 2 << 62)
