"""Export the tasks of a list: exactly those that its filter finds, in its order."""

from django.http import HttpResponse, HttpResponseBase
from django.views.decorators.http import require_safe

from dashboard.access import operators_only
from dashboard.export import stream_rows
from dashboard.navigation import requested_project
from dashboard.rendering import HtmxRequest
from dashboard.tasks import filters as task_filters
from dashboard.tasks import order

COLUMNS = {
    "id": "id",
    "project": "project__name",
    "plan": "plan__ref",
    "ref": "ref",
    "title": "title",
    "type": "type",
    "agent": "agent__name",
    "state": "state",
    "blocked_reason": "blocked_reason",
    "priority": "priority",
    "attempts": "attempts",
    "attempt_limit": "attempt_limit",
    "error": "error",
    "created_at": "created_at",
    "updated_at": "updated_at",
    "started_at": "started_at",
    "completed_at": "completed_at",
}


@require_safe
@operators_only
def export(request: HtmxRequest, form: str) -> HttpResponseBase:
    """Stream the list as CSV or JSON lines; a filter that is not understood exports nothing."""
    query = task_filters.parse(request.GET.get("q", ""))
    if query.problems:
        text = f"Nothing was exported. {' '.join(query.problems)}"
        return HttpResponse(text, status=400, content_type="text/plain; charset=utf-8")
    sort = order.read_sort(request.GET.get("sort", ""), 0)
    rows = order.order_all(query, requested_project(request), sort)
    return stream_rows(rows, COLUMNS, form=form, name="tasks")
