"""Delete a project's events: the only deletes of the journal.

The event that its deletion has started marks a project until its own row is deleted. Until then,
its rows and its other events may be inconsistent.
"""

from uuid import UUID

from ledger import journal
from ledger.database import sql
from ledger.journal import Kind, Stamp, since_subject

IS_MARK = f"kind = '{Kind.PROJECT_DELETION_STARTED}'"
EVENTS_SEARCHED = 5_000
# There is no index on a project's events: the whole journal is searched, piece by piece.
NEXT = """select id as last from (
    select id from ledger_event where id > %(after)s order by id limit %(most)s::int
) searched order by id desc limit 1"""
# The journal's guard asks for it; it ends with the transaction.
OPEN_GUARD = "select set_config('tenfour.deleted_project', %(project)s::uuid::text, true)"
DELETE = f"""delete from ledger_event
where id > %(after)s and id <= %(last)s and project_id = %(project)s and not {IS_MARK}"""
DELETE_MARK = f"""delete from ledger_event
where subject_id = %(project)s and id >= {since_subject("%(project)s::uuid")} and {IS_MARK}"""
# The projects whose deletion has not ended; each looks up its own events.
MARKED = f"""select p.id, p.name from ledger_project p cross join lateral (
    select from ledger_event
    where subject_id = p.id and id >= {since_subject("p.id")} and {IS_MARK} limit 1
) mark"""


def mark_project(project_id: UUID, *, stamp: Stamp) -> None:
    journal.record(
        Kind.PROJECT_DELETION_STARTED,
        subject_type="project",
        subject_id=project_id,
        project_id=project_id,
        stamp=stamp,
    )


def list_marked_projects() -> list[str]:
    return [row["name"] for row in sql.run(f"{MARKED} order by p.name")]


def delete_project_events(project_id: UUID, *, after: UUID) -> UUID | None:
    """Delete a project's events among the next ones; return where to continue, or None at the end.

    Only the deletion of the whole project may do it, and its mark stays. Call it in a transaction.
    """
    found = sql.run(NEXT, after=after, most=EVENTS_SEARCHED)
    if not found:
        return None
    last: UUID = found[0]["last"]
    sql.run(OPEN_GUARD, project=project_id)
    sql.run(DELETE, project=project_id, after=after, last=last)
    return last


def delete_mark(project_id: UUID) -> None:
    """Delete a project's mark; call it in the transaction that deletes the project's row."""
    sql.run(OPEN_GUARD, project=project_id)
    sql.run(DELETE_MARK, project=project_id)
