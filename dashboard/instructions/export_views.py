"""Export the instructions of a list: exactly those that its filter finds, in its order."""

from django.http import HttpResponseBase
from django.views.decorators.http import require_safe

from dashboard.frame.access import operators_only
from dashboard.frame.navigation import requested_project
from dashboard.frame.rendering import HtmxRequest
from dashboard.instructions import filters, queries
from dashboard.lists.export import export_list
from dashboard.lists.nearest_names import list_problems
from dashboard.lists.sorting import read_sort, sort_rows

COLUMNS = {
    "id": "id",
    "project": "project__name",
    "agent": "agent__name",
    "state": "state",
    "content": "content",
    "sent_by": "sent_by_name",
    "tracked": "tracked",
    "retry_count": "retry_count",
    "deliveries": "deliveries",
    "outcome": "outcome",
    "note": "note",
    "queued_at": "queued_at",
    "delivered_at": "delivered_at",
    "delivered_via": "delivered_via",
    "read_at": "read_at",
    "acknowledged_at": "acknowledged_at",
    "failed_at": "failed_at",
    "cancelled_at": "cancelled_at",
}


@require_safe
@operators_only
def export(request: HtmxRequest, form: str) -> HttpResponseBase:
    """Stream the list as CSV or JSON lines."""
    query = filters.parse(request.GET.get("q", ""))
    project = requested_project(request)
    sort = read_sort(request.GET.get("sort", ""), queries.COLUMNS, 0)
    rows = queries.filter_instructions(query, project)
    ordered = sort_rows(rows, sort, queries.COLUMNS)
    problems = list_problems(query, "instructions", project)
    return export_list(ordered, COLUMNS, form=form, name="instructions", problems=problems)
