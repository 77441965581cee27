"""Export the failure patterns of a list: exactly those that its filter finds."""

from django.http import HttpResponseBase

from dashboard.frame.navigation import requested_project
from dashboard.frame.rendering import HtmxRequest
from dashboard.lists.export import export_list
from dashboard.lists.nearest_names import list_problems
from dashboard.lists.sorting import read_sort
from dashboard.patterns import filters, queries
from retries.failures import figures

COLUMNS = {
    "id": "id",
    "project": "project__name",
    "state": "state",
    "fingerprint": "fingerprint",
    "template": "template",
    "example": "example",
    "failures": "failures",
    "first_seen": "first_seen",
    "last_seen": "last_seen",
    "ignored_until": "ignored_until",
    "note": "note",
}


def export(request: HtmxRequest, form: str) -> HttpResponseBase:
    """Stream the list as CSV or JSON lines."""
    query = filters.parse(request.GET.get("q", ""))
    project = requested_project(request)
    sort = read_sort(request.GET.get("sort", ""), queries.COLUMNS, None)
    counted = queries.filter_patterns(query, project).annotate(failures=figures.FAILURES)
    ordered = queries.order_patterns(counted, sort)
    problems = list_problems(query, "patterns", project)
    return export_list(ordered, COLUMNS, form=form, name="patterns", problems=problems)
