"""The journal's partitions, one a month: create them ahead, and drop old ones.

The first partition holds all events from before the journal had partitions. The last one, the tail,
has no end, so that an event always has a place, even after the clock jumped or did not run.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import OperationalError, connection, transaction

from ledger.database import sql
from ledger.values.ids import first_id, timestamp_of

PARENT, TAIL = "ledger_event", "ledger_event_tail"
AHEAD = 3
# A strong lock waits behind a long query, and every move would wait behind the lock.
SHORT_WAIT = "100ms"
# the check of the tail while it becomes a partition, and the time for which it surely allows events
BOUND = f"{TAIL}_bound"
BOUND_SLACK = timedelta(days=1)
TAIL_BOUND = f"""
select substring(pg_get_constraintdef(oid) from '< ''([0-9a-f-]+)''') as high from pg_constraint
where conrelid = '{TAIL}'::regclass and conname = '{BOUND}'"""

# The comment on a partition that a drop is about to detach. It stays with the detached table.
MARK = "Tenfour is deleting this month of the journal."
IS_MARKED = f"obj_description(c.oid, 'pg_class') is not distinct from '{MARK}'"

PARTITIONS = f"""
select c.relname as name, pg_get_expr(c.relpartbound, c.oid) as bounds,
    i.inhdetachpending as is_detaching, {IS_MARKED} as is_marked
from pg_inherits i join pg_class c on c.oid = i.inhrelid
where i.inhparent = '{PARENT}'::regclass"""
# Partitions that an interrupted drop detached but did not delete.
DETACHED = f"""
select c.relname as name from pg_class c
where c.relnamespace = (select relnamespace from pg_class where oid = '{PARENT}'::regclass)
    and c.relkind = 'r' and not c.relispartition
    and c.relname ~ '^{PARENT}_(before_)?[0-9]{{6}}(_[0-9]{{6}})?$' and {IS_MARKED}
order by c.relname"""
BOUNDS = re.compile(r"FROM \((MINVALUE|'(?P<low>[^']+)')\) TO \((MAXVALUE|'(?P<high>[^']+)')\)")
# The planner's figures of the whole journal are out of date: autovacuum doesn't look at it.
IS_STALE = f"""
select sum(greatest(c.reltuples, 0)) > 1.1 * max(greatest(p.reltuples, 0)) + 2000 as is_stale
from pg_class p join pg_inherits i on i.inhparent = p.oid join pg_class c on c.oid = i.inhrelid
where p.oid = '{PARENT}'::regclass"""


class Busy(Exception):
    """A partition can't be changed now, because a long transaction reads the journal."""


@dataclass(frozen=True, slots=True)
class JournalPartition:
    """A partition with its time: from `start` to before `end`; None means no end."""

    name: str
    start: datetime | None
    end: datetime | None
    is_detaching: bool = False
    is_marked: bool = False

    def covers(self, at: datetime) -> bool:
        return (self.start is None or self.start <= at) and (self.end is None or at < self.end)


def list_partitions() -> list[JournalPartition]:
    found = []
    for row in sql.run_custom_plan(PARTITIONS):
        if bounds := BOUNDS.search(row["bounds"]):
            low, high = bounds["low"], bounds["high"]
            start = timestamp_of(UUID(low)) if low else None
            end = timestamp_of(UUID(high)) if high else None
            state = row["is_detaching"], row["is_marked"]
            found.append(JournalPartition(row["name"], start, end, *state))
    return sorted(found, key=lambda each: (each.start is not None, each.start))


def find_missing_month(*, now: datetime) -> datetime | None:
    """Return the start of this month, or of the next, if it has no partition of its own yet."""
    ends = [each.end for each in list_partitions() if each.end and not each.is_detaching]
    for month in (month_of(now), next_month(month_of(now))):
        if not ends or max(ends) <= month:
            return month
    return None


def month_of(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def next_month(month: datetime) -> datetime:
    return month.replace(year=month.year + month.month // 12, month=month.month % 12 + 1)


# ---- months ahead


def make_months(*, now: datetime, ahead: int = AHEAD) -> int:
    """Add the partitions of the months after this one that are missing; return how many.

    The tail gives way to them. If it holds events, it becomes a partition itself and a new tail
    follows. Raises Busy if the journal can't be locked at once.
    """
    last = month_of(now)
    for _ in range(ahead):
        last = next_month(last)
    try:
        if fetch_tail_start() <= last:
            for prepare in (bound_tail, validate_bound):
                with hold_months():
                    prepare(now)
        with hold_months():
            return extend_to(last)
    except OperationalError as error:
        raise Busy(str(error).strip()) from error


@contextmanager
def hold_months() -> Iterator[None]:
    # One process at a time changes partitions, in a transaction that waits for no reader.
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("select pg_advisory_xact_lock(hashtext('tenfour.journal_months'))")
        cursor.execute("select set_config('lock_timeout', %s, true)", [SHORT_WAIT])
        yield


def fetch_tail_start() -> datetime:
    tail = list_partitions()[-1]
    assert tail.name == TAIL and tail.start
    return tail.start


def bound_tail(now: datetime) -> None:
    """Give a tail with events a check of the bounds that it will have as a partition."""
    # If the check is valid, no move waits for a scan of the tail's events.
    drop_bound()
    if newest := find_newest():
        start = fetch_tail_start()
        # Until the tail has become a partition, events beyond the check are refused.
        end = next_month(month_of(max(newest, now, start) + BOUND_SLACK))
        run(
            f"alter table {TAIL} add constraint {BOUND} check (id >= %s and id < %s) not valid",
            bound_of(start),
            bound_of(end),
        )


def validate_bound(now: datetime) -> None:
    if find_bound():
        run(f"alter table {TAIL} validate constraint {BOUND}")


def drop_bound() -> None:
    if find_bound():
        run(f"alter table {TAIL} drop constraint {BOUND}")


def find_bound() -> datetime | None:
    rows = sql.run_custom_plan(TAIL_BOUND)
    return timestamp_of(UUID(rows[0]["high"])) if rows else None


def find_newest() -> datetime | None:
    rows = sql.run_custom_plan(
        f"select uuid_extract_timestamp(id) as at from {TAIL} order by id desc limit 1"
    )
    return rows[0]["at"] if rows else None


def extend_to(last: datetime) -> int:
    start = fetch_tail_start()
    if start > last:
        return 0
    run(f"alter table {PARENT} detach partition {TAIL}")
    month, made = start, 0
    newest, bound = find_newest(), find_bound()
    if newest:
        month, made = bound or next_month(month_of(max(newest, start))), 1
        name = name_of(start, month)
        run(f"alter table {TAIL} rename to {name}")
        run(
            f"alter table {PARENT} attach partition {name} for values from (%s) to (%s)",
            bound_of(start),
            bound_of(month),
        )
        if bound:
            run(f"alter table {name} drop constraint {BOUND}")
    while month <= last:
        following = next_month(month)
        add_partition(name_of(month, following), month, following)
        month, made = following, made + 1
    if newest:
        add_partition(TAIL, month, None)
    else:
        run(
            f"alter table {PARENT} attach partition {TAIL} for values from (%s) to (maxvalue)",
            bound_of(month),
        )
    return made


def name_of(start: datetime, end: datetime) -> str:
    """Return the name of the partition of one month, or of several with the first and the last.

    >>> name_of(datetime(2026, 12, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))
    'ledger_event_202612'
    """
    name = f"{PARENT}_{start:%Y%m}"
    if next_month(start) == end:
        return name
    before = end.replace(year=end.year - (end.month == 1), month=(end.month - 2) % 12 + 1)
    return f"{name}_{before:%Y%m}"


def add_partition(name: str, start: datetime | None, end: datetime | None) -> None:
    low, high = (bound_of(at) if at else None for at in (start, end))
    run("select ledger_event_add_partition(%s, %s, %s)", name, low, high)


def bound_of(at: datetime) -> UUID:
    """Return the lowest id of a partition that begins at a time, as `ledger_event_floor` does."""
    return UUID(int=first_id(at).int >> 80 << 80)


def run(statement: str, *values: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)


# ---- months that are past


def list_months_past(*, before: datetime) -> list[JournalPartition]:
    return [each for each in list_partitions() if each.end and each.end <= before]


def drop_month(partition: JournalPartition) -> None:
    """Detach a partition from the journal and delete it with its events.

    No move waits: the first half waits until all transactions that may read the partition have
    ended. Raises Busy if that takes too long; the next call, or `drop_detached`, continues. It
    can't run in a transaction.
    """
    how = "finalize" if partition.is_detaching else "concurrently"
    mark_month(partition)
    run_unless_busy(f"alter table {PARENT} detach partition {partition.name} {how}")
    run_unless_busy(f"drop table if exists {partition.name}")


def mark_month(partition: JournalPartition) -> None:
    with transaction.atomic():
        run_unless_busy(f"comment on table {partition.name} is '{MARK}'")
        # From here on, its detachment waits for us.
        if partition.name not in {each.name for each in list_partitions()}:
            raise Busy(f"{partition.name} has been detached meanwhile.")


def drop_detached() -> int:
    """Delete the partitions that an interrupted drop detached; return how many. Raises Busy."""
    # Other tables with such a name stay, because an administrator detached or restored them. So
    # does a month that a version without marks detached and did not delete.
    unmark_months()
    names = [row["name"] for row in sql.run_custom_plan(DETACHED)]
    for name in names:
        run_unless_busy(f"drop table if exists {name}")
    return len(names)


def unmark_months() -> None:
    # An administrator may detach such a month later, to keep it.
    for each in list_partitions():
        if each.is_marked and not each.is_detaching:
            run_unless_busy(f"comment on table {each.name} is null")


def run_unless_busy(statement: str) -> None:
    try:
        run(statement)
    except OperationalError as error:
        raise Busy(str(error).strip()) from error


# ---- the planner's figures


def analyze_if_stale() -> bool:
    """Analyze the whole journal if it has grown since the last time; return whether it had."""
    is_stale = bool(sql.run_custom_plan(IS_STALE)[0]["is_stale"])
    if is_stale:
        run(f"analyze only {PARENT}")
    return is_stale
