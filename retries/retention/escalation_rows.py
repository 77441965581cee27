"""Closed escalations whose task or instruction is over, and ended permission requests.

An answer in words stays as long as its task, because what was learned from it counts there.
"""

from collections.abc import Sequence
from uuid import UUID

from ledger.database import sql
from ledger.moves import FINAL_STATES
from retries.retention.instruction_rows import is_over
from retries.retention.row_kind import RowKind, list_json, run_all, select_records
from retries.states import TEXT_ANSWERS, Answer

# their texts may help with later failures
KEPT_ANSWERS = [answer for answer in TEXT_ANSWERS if answer != Answer.GRANT]
DELETABLE = f"""select e.id from retries_escalation e
    left join ledger_task t on t.id = e.task_id
    left join ledger_instruction i on i.id = e.instruction_id
where e.id = any(%(ids)s) and e.closed_at < %(before)s
    and (t.state in ({FINAL_STATES})
            and (e.action is null or e.action not in ({sql.quoted(KEPT_ANSWERS)}))
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


# ---- permission requests that have ended, with the escalations about them

ESCALATIONS = list_json("retries_escalation", "x.permission_id = r.id", "x.id")
DELETE_REQUESTS = (
    "delete from retries_escalation where permission_id = any(%(ids)s)",
    "delete from retries_permissionrequest where id = any(%(ids)s)",
)


def delete_requests(ids: Sequence[UUID]) -> None:
    run_all(DELETE_REQUESTS, ids=list(ids))


PERMISSIONS = RowKind(
    name="permissions",
    setting="ESCALATION_DAYS",
    table="retries_permissionrequest",
    searched=200,
    deletable="""select r.id from retries_permissionrequest r
where r.id = any(%(ids)s) and r.closed_at < %(before)s order by 1""",
    records=[
        select_records(
            "permission",
            f"""jsonb_build_object('permission', to_jsonb(r), 'agent', a.name, 'project', p.name,
                'escalations', {ESCALATIONS})""",
            """array[r.id::text] || array(select e.id::text from retries_escalation e
                where e.permission_id = r.id order by 1)""",
            """(select * from retries_permissionrequest where id = any(%(ids)s) order by id) r
    join ledger_agent a on a.id = r.agent_id join ledger_project p on p.id = r.project_id""",
        )
    ],
    delete_rows=delete_requests,
)
