"""Export the journal: exactly the events that its filter finds, in the order of the page."""

from django.http import HttpResponseBase
from django.utils import timezone

from dashboard.activity import filters, queries
from dashboard.frame.navigation import requested_project
from dashboard.frame.rendering import HtmxRequest
from dashboard.lists.export import export_list
from dashboard.lists.nearest_names import list_problems
from dashboard.lists.sorting import read_time_order

COLUMNS = {
    name: name
    for name in (
        *("id", "at", "project_id", "kind", "subject_type", "subject_id", "agent_id"),
        *("from_state", "to_state", "actor_type", "actor_name", "data", "request_id"),
    )
}


def export(request: HtmxRequest, form: str) -> HttpResponseBase:
    query = filters.parse(request.GET.get("q", ""), now=timezone.now())
    project = requested_project(request)
    order = "id" if read_time_order(request.GET).is_reversed else "-id"
    rows = queries.filter_events(query, project).order_by(order)
    problems = list_problems(query, "activity", project)
    return export_list(rows, COLUMNS, form=form, name="activity", problems=problems)
