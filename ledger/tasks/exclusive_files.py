"""Tasks whose files must not overlap with those of a running task of their plan.

PostgreSQL decides: the functions `ledger_take_files` and `ledger_files_holder`.
"""

from uuid import UUID

from ledger.database import sql
from ledger.database.sql import Row
from ledger.states import FINAL, TaskState

WAITING = (TaskState.QUEUED, TaskState.RETRY)


def holder_of(task: str) -> str:
    """Return the SQL of the id of the task that has the task's files, or null."""
    return f"""case when {task}.exclusive and {task}.state in ({sql.quoted(WAITING)})
        then ledger_files_holder({task}.id, {task}.plan_id, {task}.agent_id, {task}.state,
            {task}.priority, {task}.payload -> 'files') end"""


FIND_HOLDER = f"""select h.id, h.ref, h.title, h.state from ledger_task t
join ledger_task h on h.id = {holder_of("t")} where t.id = %(task)s"""

# in the order of their ids, as everything else that locks several tasks
MARK = f"""update ledger_task set exclusive = %(on)s where id = any(array(
    select id from ledger_task
    where plan_id = %(plan)s and exclusive <> %(on)s and state not in ({sql.quoted(FINAL)})
    order by id for no key update))"""


def find_holder(task_id: UUID) -> Row | None:
    rows = sql.run(FIND_HOLDER, task=task_id)
    return rows[0] if rows else None


def mark_tasks(plan_id: UUID, *, exclusive: bool) -> None:
    sql.run(MARK, plan=plan_id, on=exclusive)
