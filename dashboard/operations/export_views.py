"""Export the operations of a list: exactly those that its filter finds, in its order."""

from django.http import HttpResponseBase
from django.views.decorators.http import require_safe

from dashboard.frame.access import operators_only
from dashboard.frame.navigation import read_scope
from dashboard.frame.rendering import HtmxRequest
from dashboard.lists.export import export_list
from dashboard.lists.nearest_names import list_problems
from dashboard.lists.sorting import read_sort, sort_rows
from dashboard.operations import filters, queries

COLUMNS = {
    "id": "id",
    "verb": "verb",
    "by": "actor_name",
    "query": "query",
    "reason": "reason",
    "state": "state",
    "matching": "matching",
    "total": "total",
    "changed": "changed",
    "refused": "refused",
    "counted_at": "counted_at",
    "started_at": "started_at",
    "ended_at": "ended_at",
    "ended_by": "ended_by_name",
    "ended_because": "ended_because",
}


@require_safe
@operators_only
def export(request: HtmxRequest, form: str) -> HttpResponseBase:
    """Stream the list as CSV or JSON lines, without the operations' rows."""
    query, scope = filters.parse(request.GET.get("q", "")), read_scope(request)
    sort = read_sort(request.GET.get("sort", ""), queries.COLUMNS, None)
    ordered = sort_rows(queries.filter_operations(query, scope), sort, queries.COLUMNS)
    problems = list_problems(query, "operations", scope.project)
    return export_list(ordered, COLUMNS, form=form, name="operations", problems=problems)
