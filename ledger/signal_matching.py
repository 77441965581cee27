"""Signals that agents report, matched with what instructions expect."""

from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils import timezone
from psycopg.types.json import Jsonb

from ledger import journal, sql
from ledger.instructions import insert_event
from ledger.journal import Kind
from ledger.moves import instruction_to
from ledger.states import InstructionState
from ledger.tokens import Bearer, Caller, Statements, TrustedCaller, require_caller


def signal_statement(caller: type[Caller]) -> str:
    ack = instruction_to(
        InstructionState.ACKNOWLEDGED,
        where="i.id = any(array(select id from matched))",
        sets="outcome = 'done', acknowledged_by = jsonb_build_object("
        "'signal', (select id from matching), 'type', %(type)s::text, 'data', %(data)s::jsonb)",
    )
    event = journal.insert(
        "matching",
        kind=f"'{Kind.SIGNAL_MATCHED}'",
        subject="agent",
        subject_id="m.agent_id",
        from_state="null",
        to_state="null",
        data="jsonb_build_object('signal', m.id, 'type', %(type)s::text, 'data', %(data)s::jsonb)",
    )
    told = (
        "jsonb_build_object('retry_count', m.retry_count, 'signal', m.acknowledged_by->'signal', "
        "'type', %(type)s::text)"
    )
    return f"""with {caller.cte}, matched as materialized (
        -- in the order of ids, and waiting for locks: a pull that is under way must not hide one
        select i.id from ledger_instruction i
        where i.agent_id = (select agent_id from caller) and i.tracked
            and i.state in ('queued', 'delivered') and i.expect_type = %(type)s
            and %(data)s::jsonb @> i.expect_match
        order by i.id for update
    ), matching as materialized (
        select uuidv7() as id, agent_id, project_id from caller where exists (select from matched)
    ), moved as ({ack}),
    heard as ({event}),
    journalled as ({insert_event("moved", Kind.INSTRUCTION_ACKNOWLEDGED, data=told)})
    select m.id, c.unseen from caller c left join moved m on true
    where c.agent_id is not null order by m.id"""


SIGNAL: Statements = {caller: signal_statement(caller) for caller in (Bearer, TrustedCaller)}


def signal(
    type: str, data: dict[str, Any], *, caller: Caller, now: datetime | None = None
) -> list[UUID]:
    """Acknowledge the caller's instructions that expect this; returns their ids, oldest first.

    The data is kept with each of them. A signal that nothing expects leaves no trace.
    """
    now = now or timezone.now()
    rows = sql.run(SIGNAL[caller.__class__], type=type, data=Jsonb(data), now=now, **caller.params)
    return [row["id"] for row in require_caller(rows, caller, now)]
