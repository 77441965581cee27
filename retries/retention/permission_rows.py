"""Permission requests that have ended, with the escalations about them."""

from collections.abc import Sequence
from uuid import UUID

from retries.retention.row_kind import RowKind, list_json, run_all, select_records

ESCALATIONS = list_json("retries_escalation", "x.permission_id = r.id", "x.id")
DELETE = (
    "delete from retries_escalation where permission_id = any(%(ids)s)",
    "delete from retries_permissionrequest where id = any(%(ids)s)",
)


def delete_requests(ids: Sequence[UUID]) -> None:
    run_all(DELETE, ids=list(ids))


KIND = RowKind(
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
