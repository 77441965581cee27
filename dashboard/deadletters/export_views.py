"""Export the dead letters of a list: exactly those that its filter finds, in its order."""

from django.http import HttpResponseBase
from django.views.decorators.http import require_safe

from dashboard.deadletters import queries
from dashboard.frame.access import operators_only
from dashboard.frame.navigation import requested_project
from dashboard.frame.rendering import HtmxRequest
from dashboard.lists.export import export_list
from dashboard.lists.nearest_names import list_problems
from dashboard.lists.sorting import read_sort, sort_rows
from dashboard.tasks import filters

COLUMNS = {
    "id": "id",
    "project": "project__name",
    "task": "task_id",
    "plan": "task__plan__ref",
    "ref": "task__ref",
    "title": "task__title",
    "type": "type",
    "agent": "agent__name",
    "reason": "reason",
    "error": "error",
    "attempts": "task__attempts",
    "failed_at": "failed_at",
    "closed_at": "closed_at",
    "closed_as": "closed_as",
    "closed_by": "closed_by_name",
    "note": "note",
}


@require_safe
@operators_only
def export(request: HtmxRequest, form: str) -> HttpResponseBase:
    """Stream the list as CSV or JSON lines."""
    query = filters.parse(request.GET.get("q", ""), filters.LETTER_KEYS)
    project = requested_project(request)
    sort = read_sort(request.GET.get("sort", ""), queries.SORT_COLUMNS, 0)
    rows = queries.filter_deadletters(query, project)
    ordered = sort_rows(rows, sort, queries.SORT_COLUMNS)
    problems = list_problems(query, "deadletters", project)
    return export_list(ordered, COLUMNS, form=form, name="dead-letters", problems=problems)
