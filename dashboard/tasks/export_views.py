"""Export the tasks of a list: exactly those that its filter finds, in its order."""

from django.http import HttpResponseBase

from dashboard.frame.navigation import requested_project
from dashboard.frame.rendering import HtmxRequest
from dashboard.lists.export import export_list
from dashboard.lists.nearest_names import list_problems
from dashboard.lists.sorting import read_sort
from dashboard.tasks import filters as task_filters
from dashboard.tasks.listing import order

COLUMNS = {
    "id": "id",
    "project": "project__name",
    "plan": "plan__ref",
    "ref": "ref",
    "title": "title",
    "type": "type",
    "agent": "agent__name",
    "pool": "pool__name",
    "state": "state",
    "blocked_reason": "blocked_reason",
    "proof": "proof",
    "priority": "priority",
    "attempts": "attempts",
    "attempt_limit": "attempt_limit",
    "assignee": "assignee__username",
    "error": "error",
    "created_at": "created_at",
    "updated_at": "updated_at",
    "started_at": "started_at",
    "completed_at": "completed_at",
}


def export(request: HtmxRequest, form: str) -> HttpResponseBase:
    query = task_filters.parse(request.GET.get("q", "")).seen_by(request.user)
    project = requested_project(request)
    sort = read_sort(request.GET.get("sort", ""), order.COLUMNS, 0)
    rows = order.order_all(query, project, sort)
    problems = list_problems(query, "tasks", project)
    return export_list(rows, COLUMNS, form=form, name="tasks", problems=problems)
