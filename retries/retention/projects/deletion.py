"""Delete a project whole, in small batches.

It can be killed and run again: the project's own row goes last. Until then the rest of it may be
inconsistent, and the journal has an event that says so to `audit_ledger`.
"""

from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

from django.db import transaction

from ledger.database import sql
from ledger.journal import Stamp
from ledger.journal_storage import deletion as journal_deletion
from ledger.models import Project
from ledger.models.project import DEFAULT
from retries.models.operation import UNDER_WAY
from retries.retention import archives, instruction_rows, session_rows, task_rows
from retries.retention.projects.tables import TABLES
from retries.retention.row_kind import FIRST_ID
from retries.retention.running import archive_folder

BATCH = 500


class ProjectInUse(Exception):
    """The project can't be deleted; the text says why and what to do."""


RUNNING_TASKS = "running tasks"
# what runs -> the query that counts it
RUNNING = {
    RUNNING_TASKS: """select count(*) as n from ledger_attempt a
        join ledger_task t on t.id = a.task_id
        where a.outcome is null and t.project_id = %(project)s""",
    "sessions that a worker processes": """select count(*) as n from ledger_session
        where project_id = %(project)s and lock_until > now()""",
    "operations under way": f"""select count(*) as n from retries_operation
        where %(project)s = any(project_ids) and state in ({sql.quoted(UNDER_WAY)})""",
}
COUNTED = {
    "tasks": "ledger_task",
    "instructions": "ledger_instruction",
    "escalations": "retries_escalation",
    "sessions": "ledger_session",
    "messages": "ledger_message",
    "plans": "ledger_plan",
    "agents": "ledger_agent",
    "tokens": "ledger_token",
    "events": "ledger_event",
}
# Nothing new comes after these, apart from what the clock does.
DOORS = ("ledger_idempotencykey", "ledger_token", "ledger_membership", "ledger_invitation")


# An operation of people that spans projects stays with the others.
LEAVE_OPERATIONS = """update retries_operation
set project_ids = array_remove(project_ids, %(project)s::uuid)
where %(project)s = any(project_ids) and cardinality(project_ids) > 1"""
# tables whose rows refer to other rows of the same table
SELF_LINKS = {"retries_delivery": "summary_id", "retries_failurepattern": "merged_into_id"}
NEXT = """select id from {table} where project_id = %(project)s order by id limit %(most)s::int"""


def count_rows(project: Project) -> dict[str, int]:
    return {noun: count_in(table, project) for noun, table in COUNTED.items()}


def count_in(table: str, project: Project) -> int:
    statement = f"select count(*) as n from {table} where {TABLES[table]}"
    number: int = sql.run(statement, project=project.pk)[0]["n"]
    return number


def refuse_in_use(project: Project) -> None:
    if project.name == DEFAULT:
        raise ProjectInUse(f"The project '{DEFAULT}' always exists; it can't be deleted.")
    for what, statement in RUNNING.items():
        # In the installation where a moved project is now, its tasks run on.
        if project.moving_since and what == RUNNING_TASKS:
            continue
        if number := sql.run(statement, project=project.pk)[0]["n"]:
            raise ProjectInUse(
                f"The project '{project.name}' has {number} {what}. Pause its agents and wait "
                "until nothing runs, or abort what runs."
            )


def delete_project(project: Project, *, stamp: Stamp) -> None:
    """Delete a project with all its rows, events and archives; raises ProjectInUse or OSError."""
    refuse_in_use(project)
    with transaction.atomic():
        journal_deletion.mark_project(project.pk, stamp=stamp)
        for table in DOORS:
            sql.run(f"delete from {table} where {TABLES[table]}", project=project.pk)
    for statement in task_rows.UNTIE:
        while sql.run(statement, project=project.pk, most=BATCH):
            pass
    delete_rest("ledger_message", project)
    for table, delete in LARGE.items():
        while ids := list_next(table, project):
            delete_batch(delete, ids)
    sql.run(LEAVE_OPERATIONS, project=project.pk)
    for table in reversed(list(TABLES)):
        if table not in ("ledger_event", "ledger_project"):
            delete_rest(table, project)
    delete_events(project)
    if folder := archive_folder():
        archives.delete_project(folder, project.pk)
    delete_last(project)


def list_next(table: str, project: Project) -> list[UUID]:
    rows = sql.run(NEXT.format(table=table), project=project.pk, most=BATCH)
    return [row["id"] for row in rows]


@transaction.atomic
def delete_batch(delete: Callable[[Sequence[UUID]], None], ids: Sequence[UUID]) -> None:
    delete(ids)


def delete_rest(table: str, project: Project) -> None:
    # Rows that refer to others go first.
    link = SELF_LINKS.get(table)
    for first in [f"and {link} is not null", ""] if link else [""]:
        statement = f"""delete from {table} where ctid = any(array(
            select ctid from {table} where {TABLES[table]} {first} limit %(most)s::int))
        returning 1 as one"""
        while sql.run(statement, project=project.pk, most=BATCH):
            pass


def delete_events(project: Project) -> None:
    after: UUID | None = FIRST_ID
    while after:
        with transaction.atomic():
            after = journal_deletion.delete_project_events(project.pk, after=after)


@transaction.atomic
def delete_last(project: Project) -> None:
    """Delete the project, and what the clock has written about it in the meantime."""
    # The counts of a batch of events that is under way commit before the readers' cursors are
    # locked. The events are gone, and the last one goes here, so the next batches count none of
    # them.
    sql.run("select name from retries_streamcursor order by name for update")
    sql.run("select id from ledger_project where id = %(project)s for update", project=project.pk)
    for table in reversed(list(TABLES)):
        if table != "ledger_event":
            sql.run(f"delete from {table} where {TABLES[table]}", project=project.pk)
    journal_deletion.delete_mark(project.pk)


# tables with rows of several tables below them -> what deletes some of their rows whole
LARGE: Mapping[str, Callable[[Sequence[UUID]], None]] = {
    "ledger_session": session_rows.delete_sessions,
    "ledger_task": task_rows.delete_rows,
    "ledger_instruction": instruction_rows.delete_instructions,
}
