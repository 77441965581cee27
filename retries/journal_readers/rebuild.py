"""Count the journal again: one statement for each run of events.

Tasks, instructions and escalations that retention deleted can't be counted again, and neither can
events of months that were dropped. The counts of their days are kept as they are. A rebuild that
was interrupted leaves the other days incomplete; the next one counts them from the beginning.
"""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from django.db import transaction

from ledger import journal
from ledger.database import sql
from ledger.journal import Cursor
from retries.journal_readers.counts import (
    COUNT_BATCH,
    MOST_BATCHES,
    READER,
    build_statements,
    count_activity,
)
from retries.journal_readers.horizon import BEGINNING, find_first_whole_day
from retries.journal_readers.positions import (
    IN_BATCH,
    ensure_cursor,
    lock_cursor,
    move_cursor,
    read_batches,
)
from retries.models import ActivityCount, DurationCount

# The row that says which rebuild is the newest one.
NEWEST = "activity_rebuild"
# The most events of one statement: a long one would hold back all readers of the journal.
RUN_LENGTH = 200_000
FIRST = str(UUID(int=0))
# Runs are cut by id, which is about the time. What the cursor has yet to read is left to it.
IN_RUN = """e.id > %(after)s::uuid and e.id <= %(last)s::uuid
    and (e.tx, e.id) <= (%(tx)s::text::xid8, %(id)s::uuid)
    and e.at >= %(since)s"""
COUNT_RUN = build_statements(IN_RUN)
# Of the days whose counts are kept, only events that were never counted are new.
COUNT_KEPT_DAYS = build_statements(f"{IN_BATCH} and e.at < %(since)s")
END_OF_RUN = """select id::text as id from (select id from ledger_event
    where id > %(after)s::uuid and id <= %(end)s::uuid order by id limit %(size)s
) run order by run.id desc limit 1"""
END = "select id::text as id from ledger_event order by ledger_event.id desc limit 1"


class RebuildReplaced(Exception):
    """Another rebuild has begun, which counts everything again."""


@dataclass(frozen=True, slots=True)
class Rebuild:
    """A rebuild of the events up to a position; `end` is the highest id among them.

    The counts of days before `since` are kept.
    """

    id: UUID
    head: Cursor
    end: str
    since: datetime


@dataclass(frozen=True, slots=True)
class RebuildResult:
    """The number of counted runs of events, and the first day."""

    runs: int
    since: datetime


def rebuild_activity(*, now: datetime) -> RebuildResult:
    """Count the journal again, as far back as all its rows exist; raises RebuildReplaced."""
    # The clock counts what is written meanwhile.
    since = find_first_whole_day(now=now)
    if since > BEGINNING:
        count_backlog(now=now)
    rebuild = begin_rebuild(since=since, now=now)
    runs, after = 0, FIRST
    while last := count_run(rebuild, after=after):
        runs, after = runs + 1, last
    count_activity(now=now)
    return RebuildResult(runs, rebuild.since)


def count_backlog(*, now: datetime) -> None:
    # Count the backlog first, to keep `begin_rebuild` short.
    ensure_cursor(READER, start=Cursor(), now=now)
    most = MOST_BATCHES
    while read_batches(READER, count_large_batch, most=most, now=now, size=RUN_LENGTH) == most:
        pass


def count_large_batch(between: dict[str, str]) -> None:
    for statement in COUNT_BATCH:
        sql.run_custom_plan(statement, **between)


@transaction.atomic
def begin_rebuild(*, since: datetime, now: datetime) -> Rebuild:
    """Delete the counts from a day on, and let the clock continue at the end of the journal."""
    # The days before get what the clock has not counted yet, because no later rebuild would find
    # it.
    for name in (NEWEST, READER):
        ensure_cursor(name, start=Cursor(), now=now)
    newest, cursor = lock_cursor(NEWEST), lock_cursor(READER)
    ends = sql.run(END)
    end = ends[0]["id"] if ends else FIRST
    rebuild = Rebuild(uuid4(), journal.fetch_head(), end, since)
    left = {
        "after_tx": str(cursor.tx),
        "after_id": str(cursor.event_id),
        "tx": str(rebuild.head.tx),
        "id": rebuild.head.id,
        "since": since,
    }
    for statement in COUNT_KEPT_DAYS:
        sql.run_custom_plan(statement, **left)
    move_cursor(newest, Cursor(0, str(rebuild.id)), now)
    move_cursor(cursor, rebuild.head, now)
    ActivityCount.objects.filter(at__gte=since).delete()
    DurationCount.objects.filter(at__gte=since).delete()
    return rebuild


@transaction.atomic
def count_run(rebuild: Rebuild, *, after: str) -> str:
    """Count the next events in the order of their ids; return the last id, or nothing."""
    if lock_cursor(NEWEST).event_id != rebuild.id:
        raise RebuildReplaced("Another rebuild has begun, which counts everything again.")
    ends = sql.run(END_OF_RUN, after=after, end=rebuild.end, size=RUN_LENGTH)
    if not ends:
        return ""
    last: str = ends[0]["id"]
    run = {
        "after": after,
        "last": last,
        "tx": str(rebuild.head.tx),
        "id": rebuild.head.id,
        "since": rebuild.since,
    }
    for statement in COUNT_RUN:
        sql.run_custom_plan(statement, **run)
    return last
