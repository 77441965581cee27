"""Tasks whose files must not overlap with those of a running task of their plan or project.

PostgreSQL decides: the functions `ledger_take_files` and `ledger_find_files_holder`.
"""

import time
from uuid import UUID

from django.db import transaction

from ledger.database import sql
from ledger.database.sql import Row
from ledger.models import Plan, Project
from ledger.states import FINAL, FileScope, TaskState

WAITING = (TaskState.QUEUED, TaskState.RETRY)
BATCH = 5000
MARKING_S = 2.0
FIRST_ID = UUID(int=0)


def holder_of(task: str) -> str:
    """Return the SQL of the id of the task that has the task's files, or null."""
    return f"""case when {task}.exclusive and {task}.state in ({sql.quoted(WAITING)})
        then ledger_find_files_holder({task}.project_id, {task}.id, {task}.plan_id,
            {task}.agent_id, {task}.state, {task}.priority, {task}.payload -> 'files') end"""


def is_exclusive(*, plan_id: str, project_id: str) -> str:
    """Return the SQL of whether a task's files must not overlap with those of others."""
    return f"""case when {plan_id} is null then
            (select p.exclusive_files = '{FileScope.ALL}' from ledger_project p
                where p.id = {project_id})
            else (select p.exclusive_files from ledger_plan p where p.id = {plan_id}) end"""


FIND_HOLDER = f"""select h.id, h.ref, h.title, h.state from ledger_task t
join ledger_task h on h.id = {holder_of("t")} where t.id = %(task)s"""

# in the order of their ids, as everything else that locks several tasks
MARK = f"""update ledger_task set exclusive = %(on)s where id = any(array(
    select id from ledger_task
    where plan_id = %(plan)s and exclusive <> %(on)s and state not in ({sql.quoted(FINAL)})
    order by id for no key update))"""

MARK_BATCH = f"""with batch as materialized (
    select id from ledger_task where project_id = %(project)s and id >= %(first)s
    order by id limit %(most)s
), stale as materialized (
    select t.id, {is_exclusive(plan_id="t.plan_id", project_id="t.project_id")} as value
    from ledger_task t where t.id = any(array(select id from batch))
        and t.state not in ({sql.quoted(FINAL)})
        and t.exclusive <> {is_exclusive(plan_id="t.plan_id", project_id="t.project_id")}
    order by t.id for no key update
), marked as (
    update ledger_task t set exclusive = s.value from stale s where t.id = s.id returning t.id
) select (select count(*) from marked) as marked,
    (select id from batch order by id desc limit 1) as last,
    (select count(*) from batch) = %(most)s as more"""


def find_holder(task_id: UUID) -> Row | None:
    rows = sql.run(FIND_HOLDER, task=task_id)
    return rows[0] if rows else None


def mark_tasks(plan_id: UUID, *, exclusive: bool) -> None:
    sql.run(MARK, plan=plan_id, on=exclusive)


# ---- a project's scope


def change_scope(project_id: UUID, scope: FileScope) -> None:
    """Set which tasks of a project keep their files to themselves, and tell the first of them.

    Plans keep what was set for them. The clock tells the other tasks, and again those that were
    created meanwhile.
    """
    Project.objects.filter(pk=project_id).update(exclusive_files=scope, marks_files_from=FIRST_ID)
    mark_plans(project_id, exclusive=scope != FileScope.OFF)
    sql.run(MARK_BATCH, project=project_id, first=FIRST_ID, most=BATCH)


def mark_plans(project_id: UUID, *, exclusive: bool) -> None:
    plans = Plan.objects.filter(project=project_id, own_exclusive_files=None)
    stale = plans.exclude(exclusive_files=exclusive).order_by("pk").select_for_update(no_key=True)
    ids = [plan.pk for plan in stale.only("pk")]
    Plan.objects.filter(pk__in=ids).update(exclusive_files=exclusive)


def mark_projects() -> int:
    marked, until = 0, time.monotonic() + MARKING_S
    while time.monotonic() < until and (batch := mark_batch()) is not None:
        marked += batch
    return marked


@transaction.atomic
def mark_batch() -> int | None:
    rows = Project.objects.exclude(marks_files_from=None).order_by("pk")
    project = rows.select_for_update(skip_locked=True, no_key=True).first()
    if project is None:
        return None
    if project.marks_files_from == FIRST_ID:  # those that were created meanwhile
        mark_plans(project.pk, exclusive=project.exclusive_files != FileScope.OFF)
    found = sql.run(MARK_BATCH, project=project.pk, first=project.marks_files_from, most=BATCH)[0]
    project.marks_files_from = UUID(int=found["last"].int + 1) if found["more"] else None
    project.save(update_fields=["marks_files_from"])
    marked: int = found["marked"]
    return marked
