"""Export escalations: exactly those of the inbox's filter, the snoozed or the answered ones."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from django.db.models import QuerySet, Subquery
from django.http import HttpResponseBase

from dashboard.escalations import queries
from dashboard.escalations.inbox import filters
from dashboard.escalations.inbox import selection as inbox_queries
from dashboard.escalations.inbox.address import read_order
from dashboard.escalations.inbox.filters import InboxQuery
from dashboard.escalations.inbox.outline import read_outline
from dashboard.escalations.inbox.selection import Request, narrow
from dashboard.escalations.rows import ANSWERED, SNOOZED
from dashboard.frame.live_updates import escalations_in, read_inbox_live_key
from dashboard.frame.navigation import requested_project
from dashboard.frame.rendering import HtmxRequest
from dashboard.lists.export import CHUNK, export_list, export_records
from dashboard.lists.nearest_names import list_problems
from dashboard.lists.shared_queries import of_project
from dashboard.lists.sorting import read_time_order
from ledger.database import server_time
from ledger.models import Project
from retries.models import Escalation

COLUMNS = {
    "id": "id",
    "project": "project__name",
    "agent": "agent__name",
    "task": "task_id",
    "ref": "task__ref",
    "title": "task__title",
    "instruction": "instruction_id",
    "call": "permission__title",
    "state": "state",
    "reason": "reason",
    "question": "question",
    "error": "error",
    "attempts": "attempts",
    "assignee": "assignee__username",
    "opened_at": "opened_at",
    "seen_at": "seen_at",
    "snoozed_until": "snoozed_until",
    "closed_at": "closed_at",
    "action": "action",
    "fix": "fix",
    "note": "note",
    "answered_by": "answered_by_name",
}


def export(request: HtmxRequest, form: str) -> HttpResponseBase:
    project, now, state = (
        requested_project(request),
        server_time.now(),
        request.GET.get("state", ""),
    )
    query = filters.parse(request.GET.get("q", ""))
    problems = list_problems(query, "escalations", project)
    rows: QuerySet[Any]
    if state == ANSWERED:
        rows = queries.closed().order_by("-closed_at", "-id")
    elif state == SNOOZED:
        rows = Escalation.objects.snoozed(now).order_by("snoozed_until", "id")
    else:
        records = list_inbox(read_request(request, query, project), now=now)
        return export_records(
            records, list(COLUMNS), form=form, name="escalations", problems=problems
        )
    if read_time_order(request.GET).is_reversed:
        rows = rows.reverse()
    viewer: Any = request.user
    rows = narrow(of_project(rows, project), query, project, now=now, viewer=viewer)
    return export_list(with_error(rows), COLUMNS, form=form, name="escalations", problems=problems)


def read_request(request: HtmxRequest, query: InboxQuery, project: Project | None) -> Request:
    given = request.GET
    group, sort = read_order(given.get("group", ""), given.get("sort", ""))
    viewer: Any = request.user
    return Request(query=query, project=project, viewer=viewer, group=group, sort=sort)


def list_inbox(wanted: Request, *, now: datetime) -> Iterator[Sequence[Any]]:
    # Reads CHUNK rows at a time, in the order of the page.
    changes = escalations_in(read_inbox_live_key(now=now))
    outline = read_outline(wanted, changes=changes, now=now)
    for start in range(0, outline.total, CHUNK):
        ids = outline.slice(start, start + CHUNK)
        rows = with_error(Escalation.objects.filter(pk__in=ids))
        values = {row[0]: row for row in rows.values_list(*COLUMNS.values())}
        yield from (values[id] for id in ids if id in values)


def with_error(rows: QuerySet[Any]) -> QuerySet[Any]:
    error = Subquery(inbox_queries.LAST_FAILURE.values("message")[:1])
    found: QuerySet[Any] = rows.annotate(error=error)
    return found
