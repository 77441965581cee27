"""Export escalations: exactly those of the inbox's filter, the snoozed or the answered ones."""

from datetime import datetime
from typing import Any

from django.db.models import OuterRef, Q, QuerySet, Subquery
from django.http import HttpResponseBase
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboard.access import operators_only
from dashboard.escalations import filters, inbox_queries, queries
from dashboard.escalations.filters import InboxQuery
from dashboard.escalations.rows import ANSWERED, SNOOZED
from dashboard.export import export_list
from dashboard.navigation import requested_project
from dashboard.rendering import HtmxRequest
from dashboard.shared_queries import of_project
from ledger.models import Failure, Need, Project
from ledger.states import FINAL
from retries.models import Escalation, Grouped

LAST = Failure.objects.filter(task=OuterRef("task")).order_by("-id")
COLUMNS = {
    "id": "id",
    "project": "project__name",
    "agent": "agent__name",
    "task": "task_id",
    "ref": "task__ref",
    "title": "task__title",
    "instruction": "instruction_id",
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


@require_safe
@operators_only
def export(request: HtmxRequest, form: str) -> HttpResponseBase:
    """Stream the list as CSV or JSON lines, the open ones oldest first."""
    project, now, state = requested_project(request), timezone.now(), request.GET.get("state", "")
    query = filters.parse(request.GET.get("q", "") if state not in (ANSWERED, SNOOZED) else "")
    rows: QuerySet[Any]
    if state == ANSWERED:
        rows = of_project(queries.closed(), project).order_by("-closed_at", "-id")
    elif state == SNOOZED:
        rows = of_project(Escalation.objects.snoozed(now), project).order_by("snoozed_until", "id")
    else:
        rows = select_open(query, project, request.user, now=now).order_by("id")
    rows = rows.annotate(error=Subquery(LAST.values("message")[:1]))
    return export_list(rows, COLUMNS, form=form, name="escalations", problems=query.problems)


def select_open(
    query: InboxQuery, project: Project | None, viewer: Any, *, now: datetime
) -> QuerySet[Escalation]:
    """Return the escalations of the inbox that match a query with all of its filters."""
    rows = inbox_queries.select_inbox(query, project, now=now, viewer=viewer)
    if query.pattern.wanted or query.pattern.unwanted:
        grouped = Grouped.objects.filter(failure=OuterRef("last"))
        rows = rows.alias(last=Subquery(LAST.values("id")[:1])).alias(
            pattern=Subquery(grouped.values("pattern")[:1])
        )
        unwanted = inbox_queries.find_patterns(query.pattern.unwanted)
        rows = rows.filter(Q(pattern=None) | ~Q(pattern__in=unwanted))
        if query.pattern.wanted:
            rows = rows.filter(pattern__in=inbox_queries.find_patterns(query.pattern.wanted))
    if query.blocks.wanted:
        waiting = Need.objects.exclude(task__state__in=FINAL).values("need")
        rows = rows.filter(task__in=waiting)
    return rows
