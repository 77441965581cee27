"""Export the deliveries of a list: exactly those that its filter finds, newest first."""

from django.http import HttpResponseBase
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboard.frame.access import operators_only
from dashboard.frame.navigation import requested_project
from dashboard.frame.rendering import HtmxRequest
from dashboard.lists.export import export_list
from dashboard.lists.nearest_names import list_problems
from dashboard.lists.sorting import read_sort, sort_rows
from dashboard.notifications import delivery_filters, delivery_queries

COLUMNS = {
    "id": "id",
    "project": "project__name",
    "channel": "channel__name",
    "event": "kind",
    "subject_type": "subject_type",
    "subject_id": "subject_id",
    "title": "title",
    "state": "state",
    "tries": "tries",
    "code": "code",
    "error": "error",
    "latency_ms": "latency_ms",
    "created_at": "created_at",
    "first_try_at": "first_try_at",
    "next_try_at": "next_try_at",
    "delivered_at": "delivered_at",
}


@require_safe
@operators_only
def export(request: HtmxRequest, form: str) -> HttpResponseBase:
    """Stream the list as CSV or JSON lines, without the bodies of messages and answers."""
    query = delivery_filters.parse(request.GET.get("q", ""))
    project = requested_project(request)
    sort = read_sort(request.GET.get("sort", ""), delivery_queries.COLUMNS, 0)
    rows = delivery_queries.filter_deliveries(query, project, now=timezone.now())
    ordered = sort_rows(rows, sort, delivery_queries.COLUMNS)
    problems = list_problems(query, "deliveries", project)
    return export_list(ordered, COLUMNS, form=form, name="deliveries", problems=problems)
