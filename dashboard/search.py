"""The search box: an id or a ref lands on what it names, anything else filters the list."""

from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from dashboard import buried, filters, fleet, inbox, planned, recurring, selectors, work
from dashboard.access import operators_only
from dashboard.rendering import HtmxRequest
from dashboard.shell import project_named


@require_safe
@operators_only
def search(request: HtmxRequest) -> HttpResponse:
    text = filters.clean(request.GET.get("q", ""))
    found = filters.as_id(text.strip("\"'`<>()[],;"))
    if found and selectors.by_id(found):
        return redirect("dashboard:instruction", found)
    if found and inbox.by_id(found):
        return redirect("dashboard:escalation", found)
    if found and work.by_id(found):
        return redirect("dashboard:task", found)
    if found and buried.by_id(found):
        return redirect("dashboard:deadletter", found)
    if found and recurring.by_id(found):
        return redirect("dashboard:pattern", found)
    if found and fleet.by_id(found):
        return redirect("dashboard:agent", found)
    if found and planned.by_id(found):
        return redirect("dashboard:plan", found)
    if address := planned.named(text, project_named(request)):
        return redirect(address)
    params = QueryDict(mutable=True)
    if text:
        params["q"] = text
    if project := request.GET.get("project"):
        params["project"] = project
    return redirect(f"{reverse('dashboard:instructions')}?{params.urlencode()}".rstrip("?"))
