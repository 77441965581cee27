"""Settled instructions, with the counts of their reminders and their escalations."""

from collections.abc import Sequence
from uuid import UUID

from ledger.states import InstructionState
from retries.retention.row_kind import RowKind, list_json, run_all, select_records


def is_over(instruction: str) -> str:
    # A plain instruction ends at its delivery.
    return f"""({instruction}.state <> '{InstructionState.QUEUED}'
        and not ({instruction}.state = '{InstructionState.DELIVERED}' and {instruction}.tracked))"""


DELETABLE = f"""select i.id from ledger_instruction i
where i.id = any(%(ids)s) and i.updated_at < %(before)s and {is_over("i")}
    and not exists (select from retries_escalation e where e.instruction_id = i.id
        and (e.closed_at is null or e.closed_at >= %(before)s))
order by 1"""
CONTENT = f"""jsonb_build_object('instruction', to_jsonb(i), 'agent', a.name, 'project', p.name,
    'escalations', {list_json("retries_escalation", "x.instruction_id = i.id", "x.id")})"""
NAMES = """array[i.id::text] || array(select e.id::text from retries_escalation e
        where e.instruction_id = i.id order by 1)"""
SOURCE = """(select * from ledger_instruction where id = any(%(ids)s) order by id) i
    join ledger_agent a on a.id = i.agent_id join ledger_project p on p.id = i.project_id"""
DELETE = (
    # what refers to an instruction and stays forgets it
    "update ledger_instruction set resend_of_id = null where resend_of_id = any(%(ids)s)",
    "update retries_escalation set resent_as_id = null where resent_as_id = any(%(ids)s)",
    "delete from retries_escalation where instruction_id = any(%(ids)s)",
    "delete from ledger_instructionwords where instruction_id = any(%(ids)s)",
    "delete from ledger_instruction where id = any(%(ids)s)",
)


def delete_instructions(ids: Sequence[UUID]) -> None:
    run_all(DELETE, ids=list(ids))


KIND = RowKind(
    name="instructions",
    setting="INSTRUCTION_DAYS",
    table="ledger_instruction",
    searched=200,
    deletable=DELETABLE,
    records=[select_records("instruction", CONTENT, NAMES, SOURCE)],
    delete_rows=delete_instructions,
)
