"""Read a task's row, and the rows of earlier runs whose attempts count for it."""

from collections.abc import Iterable
from uuid import UUID

from django.db.models.expressions import RawSQL

from ledger import moves
from ledger.database import sql
from ledger.database.sql import Row
from ledger.errors import InvalidTransition, NotFound, VersionMismatch
from ledger.models import Task
from ledger.states import TaskState, Who, allowed_moves


def fetch_task(task_id: UUID) -> Row:
    """Return a task's row with the columns that a move returns; raises NotFound."""
    rows = sql.run(
        f"""select {moves.task_columns("t")}, g.name as agent_name, p.name as pool_name
        from ledger_task t join ledger_agent g on g.id = t.agent_id
            left join ledger_agent p on p.id = t.pool_id
        where t.id = %(id)s""",
        id=task_id,
    )
    if not rows:
        raise NotFound(f"There is no task {task_id}.")
    return rows[0]


def fetch_at_version(task_id: UUID, *, version: int) -> Row:
    """Return the task's row; raises VersionMismatch if it is no longer at this version."""
    row = fetch_task(task_id)
    if row["version"] != version:
        raise VersionMismatch(
            f"You read version {version}, but the task is at version {row['version']} now.",
            current=row["version"],
        )
    return row


def invalid_transition(row: Row, to: TaskState, who: Who | None) -> InvalidTransition:
    allowed = allowed_moves(row["state"], who, blocked_reason=row["blocked_reason"])
    return InvalidTransition(
        f"The task is {row['state']}; it can't become {to}.", current=row["state"], allowed=allowed
    )


# ---- the rows of earlier runs

LINEAGES = """with recursive lineage as (
    select id as task_id, id, carries_id from ledger_task where id = any(%(ids)s)
    union all
    select l.task_id, t.id, t.carries_id from lineage l join ledger_task t on t.id = l.carries_id
) select id, task_id from lineage"""

LINEAGE = """with recursive lineage as (
    select id, carries_id from ledger_task where id = %s
    union all
    select t.id, t.carries_id from lineage l join ledger_task t on t.id = l.carries_id
) select id from lineage"""


def fetch_lineages(task_ids: Iterable[UUID]) -> dict[UUID, UUID]:
    """Return these tasks and the earlier rows they carry on, each with the task it counts for."""
    return {row["id"]: row["task_id"] for row in sql.run(LINEAGES, ids=list(task_ids))}


def fetch_lineage(task: Task) -> list[UUID]:
    """Return the ids of a task and the earlier rows that it carries on, newest first."""
    # most tasks carry on no other, and need no query
    return [task.pk] if task.carries_id is None else list(fetch_lineages([task.pk]))


def select_lineage(task: Task) -> "list[UUID] | RawSQL":
    if task.carries_id is None:
        return [task.pk]
    return RawSQL(LINEAGE, (task.pk,))  # noqa: S611


def fetch_carriers(task_ids: Iterable[UUID]) -> dict[UUID, list[UUID]]:
    """Return each row of these tasks' lineages with every one of the tasks that it counts for.

    For sets that include rows of earlier runs, which count for themselves and for later tasks.
    """
    found: dict[UUID, list[UUID]] = {}
    for row in sql.run(LINEAGES, ids=list(task_ids)):
        found.setdefault(row["id"], []).append(row["task_id"])
    return found


def lineage_cte(source: str) -> str:
    """Return the CTE `lineage` of a recursive statement, in both directions.

    For each task in the column `task_id` of the CTE `source` it has the task itself, the earlier
    rows that it carries on, and the later ones that carry it on.
    """
    return f"""lineage as (
    select distinct t.id as task_id, t.id, t.carries_id, t.replaced_by_id
    from {source} s join ledger_task t on t.id = s.task_id
    union
    select l.task_id, t.id, t.carries_id, t.replaced_by_id
    from lineage l join ledger_task t on t.id = any(array[l.carries_id, l.replaced_by_id])
        and (t.id = l.carries_id or t.carries_id = l.id)
)"""
