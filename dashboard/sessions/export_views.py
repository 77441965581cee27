"""Export the sessions of a list: exactly those that its filter finds, in its order."""

from django.http import HttpResponseBase
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboard.frame.access import operators_only
from dashboard.frame.navigation import requested_project
from dashboard.frame.rendering import HtmxRequest
from dashboard.lists.export import export_list
from dashboard.lists.nearest_names import list_problems
from dashboard.sessions import filters, queries

COLUMNS = {
    "id": "id",
    "project": "project__name",
    "agent": "agent__name",
    "external_id": "external_id",
    "title": "title",
    "state": "state",
    "tracker": "tracker",
    "messages": "message_count",
    "pending": "pending_count",
    "failed": "failed_count",
    "tasks": "task_count",
    "last_message_at": "last_message_at",
    "created_at": "created_at",
}


@require_safe
@operators_only
def export(request: HtmxRequest, form: str) -> HttpResponseBase:
    """Stream the list as CSV or JSON lines."""
    query = filters.parse(request.GET.get("q", ""))
    project = requested_project(request)
    order = queries.read_order(request.GET.get("sort", ""))
    rows = queries.filter_sessions(query, project, timezone.now())
    ordered = rows.order_by(*order.sorted_from(first=True))
    problems = list_problems(query, "sessions", project)
    return export_list(ordered, COLUMNS, form=form, name="sessions", problems=problems)
