"""The search page, and the results that the command palette asks for while someone types."""

from functools import partial
from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from dashboard.frame.access import may_open
from dashboard.frame.navigation import Scope
from dashboard.frame.rendering import HtmxRequest, begin_visit, compose_page, respond
from dashboard.lists import query_box
from dashboard.search import exact, results


def search(request: HtmxRequest) -> HttpResponse:
    """Show what matches a text, or redirect a form that names one page exactly."""
    # With `part`, the palette gets the results alone. With `all`, all rows are searched for a short
    # id, not only new ones.
    visit = begin_visit(request, current="")
    text = query_box.clean(request.GET.get("q", ""))
    is_part = "part" in request.GET
    if not is_part and (address := exact.find_url(text, visit.scope.project)):
        return redirect(address)
    is_whole = "all" in request.GET
    if is_whole and (address := exact.find_old_url(text, visit.scope.project)):
        return redirect(address)
    may = partial(may_open, request.user)
    kind = request.GET.get("kind", "")
    groups = results.list_groups(text, kind, visit.scope, may) if text else []
    actions = results.list_actions(text, visit.scope, may, groups)
    is_command = not groups and any(action.posts for action in actions)
    is_lost = bool(text) and not groups and not is_command
    page = compose_page(
        title=f"{text} · Search" if text else "Search",
        heading="Search",
        text=text,
        groups=groups,
        actions=actions,
        words=text.split(),
        nearest=results.find_nearest(text, visit.scope, may) if is_lost else None,
        # searches all rows for a short id; empty for other text
        every_url=every_url(visit.scope, text) if is_lost and not is_whole else "",
        is_command=is_command,  # such as `pause coder`, which needs no results
        kind=kind,
    )
    if is_part:
        return render(request, "search/_results.html", page.extra)
    return respond(visit, "search/index.html", "search/_search.html", page)


def every_url(scope: Scope, text: str) -> str:
    if not exact.is_short_id(text):
        return ""
    given = urlencode({**scope.params, "q": text, "all": "1"})
    return f"{reverse('dashboard:search')}?{given}"
