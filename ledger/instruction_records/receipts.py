"""Build the SQL of receipts: by which way an instruction was delivered, and whether it was read.

A model reads what it got before its next step. So a later call of the agent is the receipt for
what was delivered before the call's work began.
"""

from datetime import datetime
from uuid import UUID

from ledger import journal
from ledger.database import sql
from ledger.journal import Kind
from ledger.states import InstructionState

PLACE = "delivered_via = %(via)s, delivered_to = %(session)s, delivered_call = %(call)s"
# What a delivery sets. A reminder is a later step of its agent, which has read the one before.
DELIVERY = f"""{PLACE},
    first_delivered_at = coalesce(i.first_delivered_at, %(now)s), unread = true,
    read_at = case when i.unread then coalesce(i.read_at, %(now)s) else i.read_at end"""

# What an acknowledgment sets: an agent that acknowledges a delivery has read it.
FOLLOWED = """unread = false,
    read_at = case when i.delivered_at is null then i.read_at else coalesce(i.read_at, %(now)s)
        end"""

DELIVERY_DATA = """jsonb_strip_nulls(jsonb_build_object('retry_count', m.retry_count,
    'via', m.delivered_via, 'session', m.delivered_to, 'call', m.delivered_call))"""

# Deliveries that named no session count for each of the agent's sessions.
UNREAD = f"""i.unread and i.state = '{InstructionState.DELIVERED}' and i.delivered_at < %(began)s
    and (i.delivered_to is null or i.delivered_to = %(session)s)"""


def insert_read(source: str) -> str:
    return journal.insert_without_states(
        source,
        kind=f"'{Kind.INSTRUCTION_READ}'",
        subject="instruction",
        data="jsonb_strip_nulls(jsonb_build_object('retry_count', m.retry_count, "
        "'session', m.delivered_to, 'call', %(call)s::int))",
    )


def mark_read(agent: str) -> str:
    """Return the CTEs that mark as read what an agent got before %(began)s, and journal it."""
    return f"""marked as (
        update ledger_instruction i
        set unread = false, read_at = coalesce(i.read_at, %(now)s), updated_at = %(now)s
        -- another call that holds a row moves it or marks it
        where i.id = any(array(select i.id from ledger_instruction i
            where i.agent_id = {agent} and {UNREAD} for update skip locked))
        returning i.id, i.project_id, i.agent_id, i.retry_count, i.delivered_to
    ), journaled_read as ({insert_read("marked")})"""


# How long each of the first instructions in the queue is, and a row without a length where
# something waits for its receipt.
WAITING = f"""(select char_length(i.content) as length from ledger_instruction i
    where i.agent_id = %(agent)s and i.state = '{InstructionState.QUEUED}'
    order by i.position limit %(limit)s)
union all
(select null from ledger_instruction i where i.agent_id = %(agent)s and {UNREAD} limit 1)"""


def read_waiting(
    agent_id: UUID, *, limit: int, session: str, began: datetime
) -> tuple[list[int], bool]:
    """Return the lengths of an agent's next instructions, and whether a delivery is unread."""
    rows = sql.run(WAITING, agent=agent_id, limit=limit, session=session, began=began)
    lengths = [row["length"] for row in rows if row["length"] is not None]
    return lengths, len(lengths) < len(rows)
