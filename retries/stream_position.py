"""How far each reader of the journal has read it."""

from datetime import datetime

from ledger.journal import Cursor
from retries.models import StreamCursor


def ensure_cursor(name: str, *, start: Cursor, now: datetime) -> None:
    """Let a reader that is new begin after `start`."""
    values = {"tx": start.tx, "event_id": start.id, "moved_at": now}
    StreamCursor.objects.get_or_create(name=name, defaults=values)


def lock_cursor(name: str) -> StreamCursor:
    """Return a reader's cursor with its row locked, so that one process reads at a time."""
    return StreamCursor.objects.select_for_update().get(name=name)


def move_cursor(cursor: StreamCursor, to: Cursor, now: datetime) -> None:
    """Move a locked cursor to the last event that was read."""
    if (cursor.tx, str(cursor.event_id)) != (to.tx, to.id):
        StreamCursor.objects.filter(pk=cursor.pk).update(tx=to.tx, event_id=to.id, moved_at=now)
