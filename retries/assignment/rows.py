"""Assign tasks and failure patterns to people, and comment on them.

A dead letter has its task's assignee and comments, because each failed task has exactly one.
Escalations have rules of their own: see `retries.escalations.assignment`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from ledger import journal
from ledger.database import sql
from ledger.errors import NotFound
from ledger.journal import Kind, Stamp
from ledger.models import Task
from ledger.secrets.notes import noted
from ledger.tokens import TrustedCaller
from retries.assignment.people import build_comment, find_assignee
from retries.models import FailurePattern

IDS_RECORDED = 20


@dataclass(frozen=True, slots=True)
class Noun:
    """Rows that people are responsible for; `agent` and `sets` are SQL about a row `r`."""

    name: str
    model: type[Any]
    assigned: Kind
    commented: Kind
    agent: str
    sets: str

    def permission(self, act: str) -> str:
        options = self.model._meta
        return f"{options.app_label}.{act}_{options.model_name}"


# A task's `updated_at` stays: it says since when the task has been in its state.
TASK = Noun(
    "task",
    Task,
    Kind.TASK_ASSIGNED,
    Kind.TASK_COMMENTED,
    agent="r.agent_id",
    sets="version = r.version + 1",
)
PATTERN = Noun(
    "pattern",
    FailurePattern,
    Kind.PATTERN_ASSIGNED,
    Kind.PATTERN_COMMENTED,
    agent="null::uuid",
    sets="updated_at = %(now)s",
)


def assign_statement(noun: Noun) -> str:
    table = noun.model._meta.db_table
    return f"""with {TrustedCaller.cte}, m as (
        update {table} r set assignee_id = %(user)s::int, {noun.sets}
        where r.assignee_id is distinct from %(user)s::int and r.id = any(array(
            select id from {table} where id = any(%(ids)s) order by id for update))
        returning r.id, r.project_id, {noun.agent} as agent_id
    ), events as ({
        journal.insert_without_states(
            "m",
            kind=f"'{noun.assigned}'",
            subject=noun.name,
            data="jsonb_build_object('user', %(name)s::text) || %(note)s",
        )
    }) select id, project_id from m"""


ASSIGN = {noun.name: assign_statement(noun) for noun in (TASK, PATTERN)}


def assign(
    noun: Noun, ids: Iterable[UUID], user: str | None, *, note: str = "", stamp: Stamp
) -> list[UUID]:
    """Assign rows to the operator with this username, or to no one; return the changed ids."""
    wanted = list(ids)
    rows = noun.model._default_manager.filter(pk__in=wanted).order_by()
    projects = rows.values_list("project", flat=True).distinct()
    found = find_assignee(user, noun.permission("change"), *projects)
    changed = sql.run(
        ASSIGN[noun.name],
        ids=wanted,
        user=found.pk if found else None,
        name=found.username if found else None,
        note=Jsonb(noted(note)),
        now=stamp.at,
        **TrustedCaller(stamp.actor, request_id=stamp.request_id).params,
    )
    if changed:
        to = found.username if found else None
        record_token_use(noun, "assigned", changed, stamp=stamp, to=to)
    return [row["id"] for row in changed]


def comment(noun: Noun, id: UUID, text: str, *, stamp: Stamp) -> None:
    row = noun.model._default_manager.filter(pk=id).first()
    if row is None:
        raise NotFound(f"There is no {noun.name} {id} here.")
    journal.record(
        noun.commented,
        subject_type=noun.name,
        subject_id=row.pk,
        project_id=row.project_id,
        agent_id=getattr(row, "agent_id", None),
        stamp=stamp,
        data=build_comment(text, noun.permission("view"), row.project_id),
    )
    changed = [{"id": row.pk, "project_id": row.project_id}]
    record_token_use(noun, "commented on", changed, stamp=stamp)


def record_token_use(
    noun: Noun, done: str, rows: list[dict[str, Any]], *, stamp: Stamp, **data: Any
) -> None:
    """Record what a token did among the token's own events, where the audit log finds it."""
    # The partial index of tokens' acts has neither kind.
    if stamp.actor.type != "token":
        return
    ids = [str(row["id"]) for row in rows[:IDS_RECORDED]]
    journal.record(
        Kind.TOKEN_USED_IN_BULK,
        subject_type="token",
        subject_id=UUID(stamp.actor.id),
        project_id=rows[0]["project_id"],
        stamp=stamp,
        data={"done": done, "count": len(rows), "noun": noun.name, "ids": ids} | data,
    )
