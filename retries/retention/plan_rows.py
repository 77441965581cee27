"""Plans that are over, each with all its tasks in one transaction."""

from collections.abc import Iterator, Sequence
from uuid import UUID

from ledger.database import sql
from retries.retention import task_rows
from retries.retention.archives import Record
from retries.retention.row_kind import Held, RowKind, hold, list_json, select_records

# A rule for a plan keeps it, and so does a link of one of its tasks to a task elsewhere.
DELETABLE = f"""select p.id from ledger_plan p
where p.id = any(%(ids)s) and coalesce(p.aborted_at, p.completed_at) < %(before)s
    and not exists (select from ledger_standinginstruction r where r.plan_id = p.id)
    and not exists (select from retries_notificationrule r where r.plan_id = p.id)
    and not exists (select from ledger_task t where t.plan_id = p.id and {task_rows.is_kept("t")})
    and not exists (
        select from ledger_task t cross join lateral ({task_rows.LINKS}) x
            join ledger_task o on o.id = x.id
        where t.plan_id = p.id and o.plan_id is distinct from t.plan_id
    )
order by 1"""
TASKS = "select id from ledger_task where plan_id = any(%(ids)s) order by id"
PLANS = """(select * from ledger_plan where id = any(%(ids)s) order by id) l
    join ledger_project p on p.id = l.project_id"""


def read_traces(ids: Sequence[UUID]) -> Iterator[list[Record]]:
    return task_rows.read_traces([row["id"] for row in sql.run(TASKS, ids=list(ids))])


def delete_plans(ids: Sequence[UUID]) -> None:
    """Delete locked plans with their tasks; raises Held if one of the tasks is locked."""
    tasks = [row["id"] for row in sql.run(TASKS, ids=list(ids))]
    if len(hold("ledger_task", tasks)) < len(tasks):
        raise Held
    if tasks:
        task_rows.delete_tasks(tasks)
    sql.run("delete from retries_planforecast where plan_id = any(%(ids)s)", ids=list(ids))
    sql.run("delete from ledger_budget where plan_id = any(%(ids)s)", ids=list(ids))
    sql.run("delete from retries_tasktarget where plan_id = any(%(ids)s)", ids=list(ids))
    sql.run("delete from ledger_plan where id = any(%(ids)s)", ids=list(ids))


KIND = RowKind(
    name="plans",
    setting="TASK_DAYS",
    table="ledger_plan",
    searched=1,
    deletable=DELETABLE,
    records=[
        task_rows.select_task_records("plan_id = any(%(ids)s)"),
        select_records(
            "plan",
            "jsonb_build_object('plan', to_jsonb(l), 'project', p.name, 'budgets', "
            f"{list_json('ledger_budget', 'x.plan_id = l.id', 'x.id')})",
            "array[l.id::text, l.ref]",
            PLANS,
        ),
    ],
    delete_rows=delete_plans,
    more_records=read_traces,
)
