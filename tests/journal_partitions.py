"""The journal's partitions in tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import OperationalError, connection

from ledger.journal_storage.months import TAIL, add_partition, list_partitions, name_of, next_month
from ledger.values.ids import timestamp_of
from tests.waiting import wait_until

TRIGGER = "ledger_event_no_truncate"


def set_truncate_triggers(cursor: Any, how: str) -> None:
    """Enable or disable the triggers that refuse to truncate the journal and its partitions."""
    for table in ("ledger_event", *(each.name for each in list_partitions())):
        cursor.execute(f"alter table {table} {how} trigger {TRIGGER}")


def allow_truncate(cursor: Any) -> None:
    set_truncate_triggers(cursor, "disable")


def flush_journal_too() -> None:
    """Let Django truncate all tables between tests, also the partitions that a clock has made."""
    operations = type(connection.ops)  # of every thread's connection
    flush = operations.execute_sql_flush

    def allow_and_flush(self: Any, statements: list[str]) -> Any:
        with connection.cursor() as cursor:
            cursor.execute(
                "select from pg_trigger where tgname = %s and tgenabled <> 'D' limit 1", [TRIGGER]
            )
            if cursor.fetchall():
                allow_truncate(cursor)
        try:
            return flush(self, statements)
        except OperationalError:  # what a test has left behind was in the way, and has ended
            return flush(self, statements)

    setattr(operations, "execute_sql_flush", allow_and_flush)  # noqa: B010 - mypy


def lay_out(first: datetime, *, months: int) -> None:
    """Replace all partitions: one up to the month `first`, so many months, and the tail."""
    with connection.cursor() as cursor:
        for each in list_partitions():
            cursor.execute(f"drop table {each.name}")
        add_partition(f"ledger_event_before_{first:%Y%m}", None, first)
        for _ in range(months):
            following = next_month(first)
            add_partition(name_of(first, following), first, following)
            first = following
        add_partition(TAIL, first, None)
        allow_truncate(cursor)


@contextmanager
def own_partitions() -> Iterator[None]:
    """Begin with the first partition and the tail, and with an empty journal; end with them.

    For a test whose transactions are real.
    """
    first = list_partitions()[0].end
    assert first
    lay_out(first, months=0)
    try:
        yield
    finally:
        connection.close()  # a statement that was cancelled, a timeout that was set
        lay_out(first, months=0)


def split_now() -> None:
    """End the first partition now: what happened becomes the past, and the tail takes the rest."""
    with connection.cursor() as cursor:
        first, tail = list_partitions()
        cursor.execute(f"drop table {tail.name}")
        cursor.execute(f"alter table ledger_event detach partition {first.name}")
        cursor.execute("select uuidv7()")
        bound = UUID(int=cursor.fetchone()[0].int >> 80 << 80)
        cursor.execute(
            f"alter table ledger_event attach partition {first.name}"
            " for values from (minvalue) to (%s)",
            [bound],
        )
        add_partition(TAIL, timestamp_of(bound), None)
        allow_truncate(cursor)


UNSETTLED = """select exists (select from ledger_event
    where tx >= ledger_stream_number(pg_snapshot_xmin(pg_current_snapshot())))"""


def settle() -> None:
    """Wait until a reader of the stream gets all that is committed.

    It ends before what was written since autovacuum's transaction began that analyzes a table.
    """

    def is_settled() -> bool:
        with connection.cursor() as cursor:
            cursor.execute(UNSETTLED)
            return not cursor.fetchone()[0]

    wait_until(is_settled)


def insert_event(agent: Any, *, after: timedelta = timedelta(), id: UUID | None = None) -> UUID:
    """Insert an event with the id that the database makes after so much time, or has made."""
    with connection.cursor() as cursor:
        cursor.execute(
            "insert into ledger_event (id, project_id, kind, subject_type, subject_id, agent_id,"
            " actor_type) values (coalesce(%s::uuid, uuidv7(%s)), %s, 'agent.heard', 'agent', %s,"
            " %s, 'system') returning id",
            [id, after, agent.project_id, agent.pk, agent.pk],
        )
        made: UUID = cursor.fetchone()[0]
        return made


def partition_of(id: UUID) -> str:
    with connection.cursor() as cursor:
        cursor.execute("select tableoid::regclass::text from ledger_event where id = %s", [id])
        return str(cursor.fetchone()[0])
