"""Match the signals that agents report with the instructions that expect them, and with rules."""

from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from ledger import journal
from ledger.database import server_time, sql
from ledger.database.sql import Row
from ledger.instruction_records import receipts
from ledger.instructions import insert_event
from ledger.journal import Kind
from ledger.moves import instruction_to
from ledger.secrets.redaction import redacted
from ledger.standing_instructions.firing import fire_signal, has_rule_for_signal
from ledger.standing_instructions.matching import PATH, comparable
from ledger.states import InstructionState
from ledger.tokens import Bearer, Caller, Statements, TrustedCaller, require_caller, select_unseen
from ledger.values.ids import LAST_ID, first_id


@dataclass(frozen=True, slots=True)
class SignalResult:
    """The ids of the instructions that a signal acknowledged, and of those that rules sent."""

    acknowledged: list[UUID] = field(default_factory=list)
    sent: list[UUID] = field(default_factory=list)


# The data without its secrets; null where it has none, so that it is not sent twice.
STORED = "coalesce(%(masked)s::jsonb, %(data)s::jsonb)"


def signal_statement(caller: type[Caller]) -> str:
    """Return the statement that acknowledges the instructions that expect a signal."""
    # Where a rule waits for the signal, the statement changes nothing unless %(ruled)s: the rule
    # must send in the same transaction. Other projects pay only one lookup in a small index.
    ack = instruction_to(
        InstructionState.ACKNOWLEDGED,
        where="i.id = any(array(select id from matched))",
        sets="outcome = 'done', acknowledged_by = jsonb_build_object("
        f"'signal', (select id from matching), 'type', %(type)s::text, 'data', {STORED}), "
        f"{receipts.FOLLOWED}",
    )
    event = journal.insert_without_states(
        "matching",
        kind=f"'{Kind.SIGNAL_MATCHED}'",
        subject="agent",
        subject_id="m.agent_id",
        data=f"jsonb_build_object('signal', m.id, 'type', %(type)s::text, 'data', {STORED})",
    )
    ack_data = (
        "jsonb_strip_nulls(jsonb_build_object('retry_count', m.retry_count, "
        "'signal', m.acknowledged_by->'signal', 'type', %(type)s::text, 'call', %(call)s::int))"
    )
    return f"""with {caller.cte}, waits as materialized (
        select {has_rule_for_signal()} as rule
    ), matched as materialized (
        -- in id order, and without SKIP LOCKED: a concurrent pull must not hide an instruction
        select i.id from ledger_instruction i
        where i.agent_id = (select agent_id from caller) and i.tracked
            and i.state in ('queued', 'delivered') and i.expect_type = %(type)s
            and (%(data)s::jsonb @> i.expect_match
                or %(data)s::jsonb || %(normalized)s::jsonb @> i.expect_match)
            and (%(ruled)s or (select rule from waits) is null)
            -- what the agent did can't follow an instruction that was sent later
            and i.id <= (select %(last)s::uuid)
        order by i.id for update
    ), matching as materialized (
        select uuidv7() as id, agent_id, project_id from caller where exists (select from matched)
    ), moved as ({ack}),
    journaled_signal as ({event}),
    journaled as ({insert_event("moved", Kind.INSTRUCTION_ACKNOWLEDGED, data=ack_data)})
    select m.id, {select_unseen("m.id")}, (select rule from waits) as rule
    from caller c left join moved m on true
    where c.agent_id is not null order by m.id"""


SIGNAL: Statements = {caller: signal_statement(caller) for caller in (Bearer, TrustedCaller)}


def signal(
    type: str, data: dict[str, Any], *, caller: Caller, now: datetime | None = None
) -> list[UUID]:
    return report_signal(type, data, caller=caller, now=now).acknowledged


def report_signal(
    type: str,
    data: dict[str, Any],
    *,
    caller: Caller,
    session: str = "",
    attempt: UUID | None = None,
    call: int | None = None,
    happened_at: datetime | None = None,
    now: datetime | None = None,
) -> SignalResult:
    """Acknowledge the caller's instructions that expect a signal, then send what rules say.

    `call` is the number of the session's call that the signal is about, where that is known.

    A signal that is reported late, with `happened_at`, leaves instructions alone that were sent
    after that.

    The data is compared as it is, and stored without secrets with each instruction. A signal that
    no instruction expects is not stored.
    A path is also compared in its form relative to the folder that `cwd` in the data names.
    """
    now = now or server_time.now()
    last = first_id(happened_at) if happened_at else LAST_ID
    masked = redacted(data)
    run = partial(
        run_signal, type, data, masked=masked, caller=caller, call=call, last=last, now=now
    )
    rows = run(ruled=False)
    if not rows[0]["rule"]:
        return SignalResult(ids_of(rows))

    def report() -> SignalResult:
        acknowledged = run(ruled=True)
        sent = fire_signal(type, data, caller=caller, session=session, attempt=attempt, now=now)
        return SignalResult(ids_of(acknowledged), sent)

    return sql.atomic(report)()


def run_signal(
    type: str,
    data: dict[str, Any],
    *,
    masked: dict[str, Any],
    caller: Caller,
    call: int | None,
    ruled: bool,
    last: UUID,
    now: datetime,
) -> list[Row]:
    """Run the statement and return its rows; the only row may have no id."""
    seen = comparable(data)
    normalized = None if seen is data else Jsonb({PATH: seen[PATH]})
    rows = sql.run(
        SIGNAL[caller.__class__],
        type=type,
        data=Jsonb(data),
        masked=None if masked is data else Jsonb(masked),
        normalized=normalized,
        ruled=ruled,
        call=call,
        last=last,
        now=now,
        **caller.params,
    )
    require_caller(rows, caller, now)
    return rows


def ids_of(rows: list[Row]) -> list[UUID]:
    return [row["id"] for row in rows if row["id"]]
