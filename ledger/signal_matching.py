"""Match the signals that agents report with the instructions that expect them."""

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
    ack_data = (
        "jsonb_build_object('retry_count', m.retry_count, 'signal', m.acknowledged_by->'signal', "
        "'type', %(type)s::text)"
    )
    return f"""with {caller.cte}, matched as materialized (
        -- in id order, and without SKIP LOCKED: a concurrent pull must not hide an instruction
        select i.id from ledger_instruction i
        where i.agent_id = (select agent_id from caller) and i.tracked
            and i.state in ('queued', 'delivered') and i.expect_type = %(type)s
            and %(data)s::jsonb @> i.expect_match
        order by i.id for update
    ), matching as materialized (
        select uuidv7() as id, agent_id, project_id from caller where exists (select from matched)
    ), moved as ({ack}),
    journaled_signal as ({event}),
    journaled as ({insert_event("moved", Kind.INSTRUCTION_ACKNOWLEDGED, data=ack_data)})
    select m.id, c.unseen from caller c left join moved m on true
    where c.agent_id is not null order by m.id"""


SIGNAL: Statements = {caller: signal_statement(caller) for caller in (Bearer, TrustedCaller)}


def signal(
    type: str, data: dict[str, Any], *, caller: Caller, now: datetime | None = None
) -> list[UUID]:
    """Acknowledge the caller's instructions that expect a signal; return their ids, oldest first.

    The data is stored with each of them. A signal that no instruction expects is not stored.
    """
    now = now or timezone.now()
    rows = sql.run(SIGNAL[caller.__class__], type=type, data=Jsonb(data), now=now, **caller.params)
    return [row["id"] for row in require_caller(rows, caller, now)]
