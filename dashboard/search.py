"""The search box: an id or a ref lands on what it names, anything else filters the list."""

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


@require_safe
@operators_only
def search(request: HtmxRequest) -> HttpResponse:
    text = query_box.clean(request.GET.get("q", ""))
    found = query_box.as_id(text.strip("\"'`<>()[],;"))
    if found and instruction_queries.exists(found):
        return redirect("dashboard:instruction", found)
    if found and escalation_queries.exists(found):
        return redirect("dashboard:escalation", found)
    if found and task_queries.exists(found):
        return redirect("dashboard:task", found)
    if found and deadletter_queries.exists(found):
        return redirect("dashboard:deadletter", found)
    if found and pattern_queries.exists(found):
        return redirect("dashboard:pattern", found)
    if found and agent_queries.exists(found):
        return redirect("dashboard:agent", found)
    if found and plan_queries.exists(found):
        return redirect("dashboard:plan", found)
    if address := plan_queries.find_url(text, requested_project(request)):
        return redirect(address)
    params = QueryDict(mutable=True)
    if text:
        params["q"] = text
    if project := request.GET.get("project"):
        params["project"] = project
    return redirect(f"{reverse('dashboard:instructions')}?{params.urlencode()}".rstrip("?"))
