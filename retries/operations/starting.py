"""Start an operation: check the verb, count the rows, and store which ones they are."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import QuerySet

from ledger.database import sql
from ledger.errors import Invalid, Refusal
from ledger.journal import Kind, Stamp
from ledger.secrets.notes import clean_note
from ledger.secrets.sealing import seal
from retries.models import Operation
from retries.operations.recording import record_event
from retries.operations.registry import find_verb
from retries.verbs.verb import Options, Verb

MOST = 100_000  # rows of one operation
REASON_LENGTH = 500
QUERY_LENGTH = 500


class NothingToChange(Refusal):
    """Nothing to change"""

    code = "nothing_to_change"
    hint = "Select rows in a state that allows this, and try again."


@dataclass(frozen=True, slots=True)
class SelectionCount:
    """The rows that a person chose, and how many of them a verb would change now."""

    matching: int
    legal: int

    @property
    def left(self) -> int:
        return self.matching - self.legal


def count_selection(verb_name: str, chosen: QuerySet[Any]) -> SelectionCount:
    """Return how many rows are chosen and how many of them the verb would change now."""
    rows = chosen.order_by()
    return SelectionCount(rows.count(), find_verb(verb_name).narrow(rows).count())


def undo_time() -> timedelta:
    return timedelta(seconds=settings.TENFOUR["UNDO_SECONDS"])


@sql.atomic
def start_operation(
    verb_name: str,
    chosen: QuerySet[Any],
    *,
    options: Options | None = None,
    query: str = "",
    reason: str = "",
    counted_at: datetime | None = None,
    stamp: Stamp,
) -> Operation:
    """Store an operation on the chosen rows; a worker starts it when it can't be undone any more.

    `chosen` are the rows that the person sees and ticked, or all that match `query` up to
    `counted_at`. Only those that the verb can change now become part of it, and each is checked
    again when its turn comes. Raises NotFound, Invalid, ReasonRequired and NothingToChange.
    """
    verb = find_verb(verb_name)
    options = verb.check(options or {})
    reason = clean_note(reason, limit=REASON_LENGTH)
    verb.check_reason(chosen, options | {"reason": reason})
    operation = create_operation(
        verb, options, query=query, reason=reason, counted_at=counted_at or stamp.at, stamp=stamp
    )
    total, project_ids = insert_items(operation, verb.fit(verb.narrow(chosen.order_by()), options))
    if not total:
        raise NothingToChange("None of the selected rows can be changed this way now.")
    if total > MOST:
        raise Invalid(
            "/query", f"More than {MOST:,} rows match. Narrow the filter and start again."
        )
    operation.total, operation.project_ids = total, project_ids
    operation.matching = max(total, chosen.order_by().count())
    operation.save(update_fields=["total", "project_ids", "matching"])
    record_event(
        operation,
        Kind.OPERATION_STARTED,
        stamp=stamp,
        data={"count": total, "matching": operation.matching}
        | ({"query": operation.query} if operation.query else {})
        | ({"note": reason} if reason else {}),
    )
    return operation


def create_operation(
    verb: Verb, options: Options, *, query: str, reason: str, counted_at: datetime, stamp: Stamp
) -> Operation:
    masked, sealed = seal(options | ({"reason": reason} if reason else {}))
    return Operation.objects.create(
        verb=verb.name,
        noun=verb.noun,
        options=masked,
        sealed=sealed,
        query=clean_note(query, limit=QUERY_LENGTH),
        reason=reason,
        project_ids=[],
        matching=0,
        total=0,
        counted_at=counted_at,
        starts_at=stamp.at + undo_time(),
        actor_type=stamp.actor.type,
        actor_id=stamp.actor.id,
        actor_name=stamp.actor.name,
        request_id=stamp.request_id,
    )


def insert_items(operation: Operation, found: QuerySet[Any]) -> tuple[int, list[Any]]:
    """Store the rows that the verb will change; return their number and their projects."""
    rows = found.distinct().order_by("pk")
    statement, params = rows.values("id", "project_id")[: MOST + 1].query.sql_with_params()
    with connection.cursor() as cursor:
        # One statement, so that the ids of a thousand rows never travel through the process.
        cursor.execute(
            f"""with chosen as materialized ({statement}), stored as (
                insert into retries_operationitem (operation_id, subject_id)
                select %s, c.id from chosen c order by c.id
            ) select count(*), array_agg(distinct project_id) from chosen""",
            [*params, operation.pk],
        )
        total, project_ids = cursor.fetchone()
    return total, sorted(project_ids or [])
