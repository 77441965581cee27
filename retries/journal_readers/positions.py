"""The positions of the journal's readers."""

from collections.abc import Callable
from datetime import datetime

from django.db import transaction

from ledger.database import sql
from ledger.journal import SETTLED, Cursor, since_position
from retries.models import StreamCursor

BATCH_SIZE = 5_000
# The condition for the events `e` of one batch.
IN_BATCH = f"""(e.tx, e.id) > (%(after_tx)s::text::xid8, %(after_id)s::uuid)
    and (e.tx, e.id) <= (%(tx)s::text::xid8, %(id)s::uuid)
    and e.id >= {since_position("%(after_id)s::uuid")}"""
# The statement that finds the last event of a batch.
LAST = f"""select tx::text as tx, id::text as id from (
    select tx, id from ledger_event
    where {SETTLED} and (tx, id) > (%(tx)s::text::xid8, %(id)s::uuid)
        and id >= {since_position("%(id)s::uuid")}
    order by tx, id limit %(size)s
) batch order by tx desc, id desc limit 1"""


def ensure_cursor(name: str, *, start: Cursor, now: datetime) -> None:
    values = {"tx": start.tx, "event_id": start.id, "moved_at": now}
    StreamCursor.objects.get_or_create(name=name, defaults=values)


def lock_cursor(name: str) -> StreamCursor:
    # The lock lets one process read at a time.
    return StreamCursor.objects.select_for_update().get(name=name)


def move_cursor(cursor: StreamCursor, to: Cursor, now: datetime) -> None:
    if (cursor.tx, str(cursor.event_id)) != (to.tx, to.id):
        StreamCursor.objects.filter(pk=cursor.pk).update(tx=to.tx, event_id=to.id, moved_at=now)


def read_batches(
    name: str,
    count: Callable[[dict[str, str]], None],
    *,
    most: int,
    now: datetime,
    size: int | None = None,
) -> int:
    """Count settled events in at most `most` batches; return how many batches there were."""
    batches = 0
    while batches < most and read_batch(name, count, now, size or BATCH_SIZE):
        batches += 1
    return batches


@transaction.atomic
def read_batch(
    name: str, count: Callable[[dict[str, str]], None], now: datetime, size: int
) -> bool:
    """Count the next events and move the cursor behind them; return whether there were any."""
    cursor = lock_cursor(name)
    after = Cursor(cursor.tx, str(cursor.event_id))
    last = sql.run(LAST, tx=str(after.tx), id=after.id, size=size)
    if not last:
        return False
    to = Cursor(int(last[0]["tx"]), last[0]["id"])
    count({"after_tx": str(after.tx), "after_id": after.id, "tx": str(to.tx), "id": to.id})
    move_cursor(cursor, to, now)
    return True
