"""Export the plans of a list: exactly those that its filter finds, in its order."""

from django.db.models import Case, CharField, Value, When
from django.http import HttpResponseBase
from django.views.decorators.http import require_safe

from dashboard.frame.access import operators_only
from dashboard.frame.navigation import requested_project
from dashboard.frame.rendering import HtmxRequest
from dashboard.lists.export import export_list
from dashboard.lists.nearest_names import list_problems
from dashboard.lists.sorting import read_sort, sort_rows
from dashboard.plans import filters, queries
from ledger.models.plan import STANDS

COLUMNS = {
    "id": "id",
    "project": "project__name",
    "ref": "ref",
    "title": "title",
    "state": "stands",
    "run": "run",
    "created_by": "created_by_name",
    "created_at": "created_at",
    "updated_at": "updated_at",
    "paused_at": "paused_at",
    "completed_at": "completed_at",
    "aborted_at": "aborted_at",
}
STATE = Case(
    *(When(condition, then=Value(state.value)) for state, condition in STANDS.items()),
    output_field=CharField(),
)


@require_safe
@operators_only
def export(request: HtmxRequest, form: str) -> HttpResponseBase:
    """Stream the list as CSV or JSON lines."""
    query = filters.parse(request.GET.get("q", ""))
    project = requested_project(request)
    sort = read_sort(request.GET.get("sort", ""), queries.COLUMNS, 0)
    rows = queries.filter_plans(query, project).annotate(stands=STATE)
    ordered = sort_rows(rows, sort, queries.COLUMNS)
    problems = list_problems(query, "plans", project)
    return export_list(ordered, COLUMNS, form=form, name="plans", problems=problems)
