"""Let new events follow the stored ones after the database moved to another server.

The stream of events is in the order of the transactions that wrote them. A dump, or logical
replication, keeps the events' numbers, but another server counts its transactions from its own. In
a new epoch, a multiple of 2^32 is added to these: then every position in the stream stays valid.
"""

from dataclasses import dataclass

from django.db import transaction

from ledger.database import sql

NEXT = "ledger_stream_number(pg_snapshot_xmax(pg_current_snapshot()))"
IS_AHEAD = f"select max(tx) >= {NEXT} as is_ahead from ledger_event"

LOCK = "lock table ledger_event in access exclusive mode"
STATE = f"""select coalesce(max(tx)::text::bigint, 0) as newest, ({NEXT})::text::bigint as next
from ledger_event"""
NUMBER = """create or replace function ledger_stream_number(transaction xid8) returns xid8
    language sql immutable parallel safe return (transaction::text::bigint + {})::text::xid8"""
DEFAULT = """alter table ledger_event alter column tx
    set default ledger_stream_number(pg_current_xact_id())"""
GUARD = "alter table ledger_event {} trigger ledger_event_append_only"
# An event that this server wrote itself has the number of its transaction. That stored the row, or
# a savepoint in it with a greater number. A loaded event may have such a number by chance, but the
# transactions that loaded rows come before all others.
OWN = "tx::text::bigint & 4294967295"
RENUMBER = f"""with loaded as (
    select coalesce(max(xmin::text::bigint), 0) as newest from ledger_event
    where tx >= %(next)s::text::xid8 or {OWN} > xmin::text::bigint
), renumbered as (
    update ledger_event e set tx = ledger_stream_number(({OWN})::text::xid8) from loaded
    where e.tx < %(next)s::text::xid8 and {OWN} > loaded.newest
        and {OWN} <= e.xmin::text::bigint
    returning e.id
) select count(*) as count from renumbered"""

# Logical replication leaves them behind. That of the positions belongs to no column.
SEQUENCES = """select 'ledger_instruction_position' as name, 'ledger_instruction' as "table",
    'abs(position)' as value
union all select d.objid::regclass::text, d.refobjid::regclass::text, quote_ident(a.attname)
from pg_depend d join pg_class s on s.oid = d.objid and s.relkind = 'S'
    join pg_attribute a on a.attrelid = d.refobjid and a.attnum = d.refobjsubid
where d.deptype in ('a', 'i') and d.classid = 'pg_class'::regclass
    and d.refclassid = 'pg_class'::regclass and s.relnamespace = current_schema()::regnamespace"""
ADVANCE = """select setval('{name}', newest)
from (select max({value}) as newest from {table}) of_rows
where newest > coalesce(pg_sequence_last_value('{name}'), 0)"""


@dataclass(frozen=True, slots=True)
class Rebased:
    """The new epoch of the stream, and how many events this server had written before it."""

    epoch: int
    renumbered: int


def is_stream_ahead() -> bool:
    """Return whether an event has a greater number than the next one will have.

    This is so after a dump was loaded into a new server. Readers then find no new events.
    """
    return bool(sql.run(IS_AHEAD)[0]["is_ahead"])


@transaction.atomic
def rebase_stream(*, read_up_to: int) -> Rebased | None:
    """Begin a new epoch; return None if new events follow the stored ones already.

    `read_up_to` is the greatest number in the positions of the journal's readers.
    """
    sql.run(LOCK)
    [state] = sql.run(STATE)
    newest = max(state["newest"], read_up_to)
    if newest < state["next"]:
        return None
    epoch = (newest >> 32) + 1
    sql.run(NUMBER.format(epoch << 32))
    sql.run(DEFAULT)
    sql.run(GUARD.format("disable"))
    [renumbered] = sql.run(RENUMBER, next=str(state["next"]))
    sql.run(GUARD.format("enable"))
    return Rebased(epoch, renumbered["count"])


@transaction.atomic
def advance_sequences() -> int:
    """Let sequences follow the stored rows; return how many did not."""
    found = sql.run_custom_plan(SEQUENCES)
    return sum(len(sql.run_custom_plan(ADVANCE.format(**each))) for each in found)
