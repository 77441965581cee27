"""The search box: open what an id or a ref names, or else search instructions."""

from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from dashboard import query_box
from dashboard.access import operators_only
from dashboard.agents import queries as agent_queries
from dashboard.deadletters import queries as deadletter_queries
from dashboard.escalations import queries as escalation_queries
from dashboard.instructions import queries as instruction_queries
from dashboard.navigation import requested_project
from dashboard.patterns import queries as pattern_queries
from dashboard.plans import queries as plan_queries
from dashboard.rendering import HtmxRequest
from dashboard.tasks import queries as task_queries

# the queries that know whether an id exists, with the page of what it names
PAGES = (
    (instruction_queries.exists, "instruction"),
    (escalation_queries.exists, "escalation"),
    (task_queries.exists, "task"),
    (deadletter_queries.exists, "deadletter"),
    (pattern_queries.exists, "pattern"),
    (agent_queries.exists, "agent"),
    (plan_queries.exists, "plan"),
)
QUOTES = "\"'`<>()[],;"


@require_safe
@operators_only
def search(request: HtmxRequest) -> HttpResponse:
    """Redirect to what an id or a ref names, or else to the instructions that match the text."""
    text = query_box.clean(request.GET.get("q", ""))
    if id := query_box.as_id(text.strip(QUOTES)):
        for exists, page in PAGES:
            if exists(id):
                return redirect(f"dashboard:{page}", id)
    if address := plan_queries.find_url(text, requested_project(request)):
        return redirect(address)
    params = QueryDict(mutable=True)
    if text:
        params["q"] = text
    if project := request.GET.get("project"):
        params["project"] = project
    return redirect(f"{reverse('dashboard:instructions')}?{params.urlencode()}".rstrip("?"))
