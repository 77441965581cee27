"""Hold an agent's stop while an instruction is open whose rule says so."""

from dataclasses import dataclass, field
from uuid import UUID

from ledger import journal
from ledger.database import sql
from ledger.database.sql import Row
from ledger.instruction_records import receipts
from ledger.instructions import insert_event
from ledger.journal import Kind, Stamp
from ledger.models import Agent
from ledger.moves import instruction_columns, instruction_to
from ledger.states import InstructionState, Way, count_reminders, prefixed
from ledger.tokens import TrustedCaller
from retries.escalations import lifecycle

MOST_HOLDS = 7


@dataclass(frozen=True, slots=True)
class Hold:
    """The answer to an agent that wants to stop.

    `held` are the instructions that keep it from stopping; `let_go` those that did so seven times,
    which failed now; `escalations` are the ids of the questions to a person about the latter.
    """

    held: list[Row] = field(default_factory=list)
    let_go: list[Row] = field(default_factory=list)
    escalations: list[UUID] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n\n".join(describe_hold(row) for row in self.held)


def describe_hold(row: Row) -> str:
    # Holds make an instruction as urgent as reminders do.
    text = prefixed(row["content"], count_reminders(row["retry_count"], row["holds"]))
    return f"{text}\n(Tenfour lets you stop {describe_release(row)}.)"


def describe_release(row: Row) -> str:
    """Return when an instruction no longer holds the stop.

    >>> match = {"line": "make test", "exit_code": 0}
    >>> describe_release({"expect_type": "fs_command", "expect_match": match})
    "after you have run 'make test' with exit code 0"
    """
    match = dict(row["expect_match"] or {})
    if row["expect_type"] is None:
        return "after this instruction is acknowledged"
    if row["expect_type"] == "fs_command" and match.keys() & {"line", "command"}:
        code = f" with exit code {match['exit_code']}" if "exit_code" in match else ""
        return f"after you have run '{match.get('line') or match['command']}'{code}"
    if row["expect_type"] == "fs_write" and "path" in match:
        return f"after you have changed '{match['path']}'"
    named = ", ".join(f"{name} {value}" for name, value in match.items())
    return f"after the signal {row['expect_type']}" + (f" with {named}" if named else "")


# In id order: two hooks that ask at once wait for each other, and each counts.
OPEN = f"""select i.id, i.state, i.holds from ledger_instruction i
where i.agent_id = %(agent)s and i.holds is not null and i.tracked
    and i.state in ('{InstructionState.QUEUED}', '{InstructionState.DELIVERED}')
order by i.id for update"""

# The hold that follows counts as the delivery: its answer carries the text.
DELIVER = f"""with {TrustedCaller.cte}, moved as ({
    instruction_to(InstructionState.DELIVERED, where="i.id = any(%(ids)s)", sets=receipts.PLACE)
}), journaled as ({insert_event("moved", Kind.INSTRUCTION_DELIVERED, data=receipts.DELIVERY_DATA)})
select m.id from moved m"""

HELD_EVENT = journal.insert_without_states(
    "held",
    kind=f"'{Kind.INSTRUCTION_HELD}'",
    subject="instruction",
    data="jsonb_strip_nulls(jsonb_build_object('holds', m.holds, 'rule', m.rule_id, "
    "'session', m.delivered_to, 'call', m.delivered_call))",
)
COUNT = f"""with {TrustedCaller.cte}, held as (
    update ledger_instruction i set holds = i.holds + 1, deliveries = i.deliveries + 1,
        delivered_at = %(now)s, {receipts.DELIVERY}, updated_at = %(now)s
    where i.id = any(%(ids)s)
    returning {instruction_columns("i")}, old.unread and old.delivered_at < %(now)s as was_unread
), journaled as ({HELD_EVENT}),
was_read as (select * from held where was_unread),
journaled_read as ({receipts.insert_read("was_read")})
select h.* from held h order by h.id"""

LET_GO = f"""with {TrustedCaller.cte}, failed as ({
    instruction_to(InstructionState.FAILED, where="i.id = any(%(ids)s)")
}), journaled as ({
    insert_event(
        "failed",
        Kind.INSTRUCTION_FAILED,
        data="jsonb_build_object('retry_count', m.retry_count, 'holds', m.holds)",
    )
}), opened as ({lifecycle.insert_for_instructions("failed", where="true")}
), journaled_opened as ({lifecycle.insert_opened_events("opened")})
select f.*, o.id as escalation_id from failed f join opened o on o.instruction_id = f.id
order by f.id"""


@sql.atomic
def hold_stop(agent: Agent, *, session: str = "", call: int | None = None, stamp: Stamp) -> Hold:
    """Return what keeps the agent from stopping, and count that it was kept."""
    # An instruction does so at most seven times. After that it fails, and a person is asked. `call`
    # is the number of the session's last tool call.
    rows = sql.run(OPEN, agent=agent.id)
    if not rows:
        return Hold()
    caller = TrustedCaller(stamp.actor, agent=agent, request_id=stamp.request_id)
    place = {"via": Way.STOP, "session": session or None, "call": call}
    queued = [row["id"] for row in rows if row["state"] == InstructionState.QUEUED]
    if queued:
        sql.run(DELIVER, ids=queued, now=stamp.at, **place, **caller.params)
    ids = [row["id"] for row in rows if row["holds"] < MOST_HOLDS]
    held = sql.run(COUNT, ids=ids, now=stamp.at, **place, **caller.params) if ids else []
    spent = [row["id"] for row in rows if row["holds"] >= MOST_HOLDS]
    let_go = sql.run(LET_GO, ids=spent, now=stamp.at, **caller.params) if spent else []
    return Hold(held, let_go, [row["escalation_id"] for row in let_go])
