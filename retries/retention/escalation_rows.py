"""Closed escalations whose task or instruction is over.

An answer in words stays as long as its task, because what was learned from it counts there.
"""

from collections.abc import Sequence
from uuid import UUID

from ledger.database import sql
from ledger.moves import FINAL_STATES
from retries.retention.instruction_rows import is_over
from retries.retention.row_kind import RowKind, select_records
from retries.states import TEXT_ANSWERS

DELETABLE = f"""select e.id from retries_escalation e
    left join ledger_task t on t.id = e.task_id
    left join ledger_instruction i on i.id = e.instruction_id
where e.id = any(%(ids)s) and e.closed_at < %(before)s
    and (t.state in ({FINAL_STATES})
            and (e.action is null or e.action not in ({sql.quoted(TEXT_ANSWERS)}))
        or {is_over("i")})
order by 1"""
SOURCE = """(select * from retries_escalation where id = any(%(ids)s) order by id) e
    join ledger_agent a on a.id = e.agent_id join ledger_project p on p.id = e.project_id"""


def delete_escalations(ids: Sequence[UUID]) -> None:
    sql.run("delete from retries_escalation where id = any(%(ids)s)", ids=list(ids))


KIND = RowKind(
    name="escalations",
    setting="ESCALATION_DAYS",
    table="retries_escalation",
    searched=200,
    deletable=DELETABLE,
    records=[
        select_records(
            "escalation",
            """jsonb_build_object(
                'escalation', to_jsonb(e) - 'sealed', 'agent', a.name, 'project', p.name
            )""",
            "array_remove(array[e.id::text, e.task_id::text, e.instruction_id::text], null)",
            SOURCE,
        )
    ],
    delete_rows=delete_escalations,
)
