"""Build an index of the journal while agents go on reporting.

The index of a partitioned table can't be built beside writers in one statement: each partition gets
its own first. A run that was cut short is run again. Like the migrations that use it, this module
never changes once it has landed.
"""

from time import sleep
from typing import Any

import psycopg
from django.db import OperationalError

# Moves that wait behind a lock wait no longer than this.
SHORT_WAIT = "set lock_timeout = '2s'"
ATTEMPTS = 60
PAUSE_S = 1.0

PARTITIONS = """
select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
where i.inhparent = 'ledger_event'::regclass and not exists (
    select from pg_index x join pg_inherits of on of.inhrelid = x.indexrelid
    where x.indrelid = c.oid and of.inhparent = to_regclass(%s)
) order by c.relname"""


def build_index(cursor: Any, name: str, definition: str) -> None:
    """Create the index `event_…` with its columns and condition in each partition."""
    run_soon(cursor, f"create index if not exists {name} on only ledger_event {definition}")
    cursor.execute(PARTITIONS, [name])
    for (partition,) in cursor.fetchall():
        own = f"{partition}_{name.removeprefix('event_')}"
        # Nothing waits for these. What a build left that was cut short is invalid.
        cursor.execute("set lock_timeout = 0")
        cursor.execute(f"drop index concurrently if exists {own}")
        cursor.execute(f"create index concurrently {own} on {partition} {definition}")
        run_soon(cursor, f"alter index {name} attach partition {own}")
    cursor.execute("reset lock_timeout")


def run_soon(cursor: Any, statement: str) -> None:
    """Run a statement that takes a lock for a moment; let those that wait behind it go first."""
    cursor.execute(SHORT_WAIT)
    for attempt in range(ATTEMPTS):
        try:
            cursor.execute(statement)
            return
        except OperationalError as error:
            is_busy = isinstance(error.__cause__, psycopg.errors.LockNotAvailable)
            if not is_busy or attempt == ATTEMPTS - 1:
                raise
            sleep(PAUSE_S)
