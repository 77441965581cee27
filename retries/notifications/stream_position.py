"""How far notifications have read the journal."""

from datetime import datetime

from ledger import journal
from ledger.journal import Cursor
from retries.models import StreamCursor

NAME = "notifications"


def ensure_cursor(now: datetime) -> None:
    """Begin at the head of the journal, unless it was read before."""
    if not StreamCursor.objects.filter(name=NAME).exists():
        head = journal.fetch_head()
        StreamCursor.objects.get_or_create(
            name=NAME, defaults={"tx": head.tx, "event_id": head.id, "moved_at": now}
        )


def lock_cursor(now: datetime) -> StreamCursor:
    """Return the cursor with its row locked, so that one process reads at a time."""
    ensure_cursor(now)
    return StreamCursor.objects.select_for_update().get(name=NAME)


def move_cursor(cursor: StreamCursor, to: Cursor, now: datetime) -> None:
    if (cursor.tx, str(cursor.event_id)) != (to.tx, to.id):
        StreamCursor.objects.filter(name=NAME).update(tx=to.tx, event_id=to.id, moved_at=now)
