"""The journal, newest first, as its reader wants to see it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_safe

from dashboard import live_updates, query_box, rendering
from dashboard.access import operators_only
from dashboard.activity import counts as activity_counts
from dashboard.activity import filters as activity_filters
from dashboard.activity import queries
from dashboard.activity.counts import Minute, Tallies
from dashboard.activity.filters import EventQuery
from dashboard.activity.queries import Line
from dashboard.formatting import counted as words_counted
from dashboard.navigation import here_of, read_scope, requested_project
from dashboard.rendering import HtmxRequest
from dashboard.sparklines import bars
from ledger.models import Event, Project

HISTOGRAM_TALL = 38

# how long ago -> what stands above those events
AGES = ((60, "Last minute"), (3600, "Last hour"), (86_400, "Last 24 hours"))
OLDER = "Older"

NOUN_ICONS = {
    "instruction": "n-instructions",
    "signal": "beat",
    "task": "n-tasks",
    "escalation": "n-escalations",
    "pattern": "n-patterns",
    "agent": "n-agents",
    "token": "key",
}


@require_safe
@operators_only
def index(request: HtmxRequest) -> HttpResponse:
    """The list; for a reader who holds it still only the number of what is new."""
    now = timezone.now()
    key = live_updates.read_live_key(now=now, project=requested_project(request))
    if rendering.is_unchanged(request, key):
        return rendering.unchanged()
    scope = read_scope(request)
    query = activity_filters.parse(request.GET.get("q", ""), now=now)
    rows = queries.events(query, scope.project)
    held = query_box.as_id(request.GET.get("held", ""))
    if held and rendering.wants_part(request):
        return counted(request, queries.new_count(rows, since=held), key)
    page = queries.page(
        rows,
        before=query_box.as_id(request.GET.get("before", "")),
        after=query_box.as_id(request.GET.get("after", "")),
    )
    context = {
        "live_key": key,
        "now": now,
        "title": f"{query.text} · Activity" if query.text else "Activity",
        "heading": "Activity",
        "query": query,
        "page": page,
        "newest": page.rows[0].event.pk if page.rows and page.newer is None else None,
        "groups": grouped(page.rows, now=now),
        "facets": facets(activity_counts.tallies(scope.project, now=now), query),
        "histogram": histogram(query, scope.project, now=now),
        "is_filtered": bool(query.text),
    }
    return rendering.respond_with(
        request,
        "activity/index.html",
        "activity/_activity.html",
        context,
        scope=scope,
        current="activity",
    )


def counted(request: HtmxRequest, count: int, key: str) -> HttpResponse:
    """The line that says how many events wait; what is open stays as it is."""
    context = {"fresh": count, "fresh_key": key, "here": here_of(request)}
    response = render(request, "activity/_fresh.html", context)
    response["HX-Retarget"], response["HX-Reswap"] = "#fresh", "outerMorph"
    patch_vary_headers(response, ["HX-Request"])
    return response


# ---- the list


@dataclass(frozen=True, slots=True)
class Group:
    """Events of about the same age."""

    name: str
    lines: list[Line]


def grouped(lines: list[Line], *, now: datetime) -> list[Group]:
    groups: list[Group] = []
    for line in lines:
        name = age_of(line.event, now=now)
        if not groups or groups[-1].name != name:
            groups.append(Group(name, []))
        groups[-1].lines.append(line)
    return groups


def age_of(event: Event, *, now: datetime) -> str:
    age = (now - event.at).total_seconds()
    return next((name for most, name in AGES if age < most), OLDER)


# ---- what stands beside it


@dataclass(frozen=True, slots=True)
class Facet:
    label: str
    query: str
    count: int
    current: bool
    icon: str = ""


def facets(tallies: Tallies, query: EventQuery) -> dict[str, list[Facet]]:
    """The kinds and agents of the last day, each a filter or the way back from it."""
    is_all = not query.one_kind and not query.is_by_people
    kinds = [Facet("All", query.without("kind", "by"), tallies.total, is_all)]
    for noun, count in tallies.nouns.items():
        current = query.one_kind == noun
        if count or current:
            text = query.having("kind", "" if current else f"kind:{noun}")
            kinds.append(Facet(noun, text, count, current, NOUN_ICONS.get(noun, "info")))
    if tallies.people or query.is_by_people:
        text = query.having("by", "" if query.is_by_people else "by:people")
        kinds.append(Facet("by people", text, tallies.people, query.is_by_people, "person"))
    agents = []
    for name, count in tallies.agents:
        current = query.one_agent == name
        text = query.having("agent", "" if current else query_box.term("agent", name))
        agents.append(Facet(name, text, count, current))
    return {"kinds": kinds, "agents": agents}


def histogram(query: EventQuery, project: Project | None, *, now: datetime) -> dict[str, Any]:
    """A bar for each minute; nothing where nothing happened in that hour."""
    minutes = activity_counts.minutes(query, project, now=now)
    total, bad = sum(each.count for each in minutes), sum(each.bad for each in minutes)
    if not total:
        return {}
    given_up = f", {bad:,} of them failures" if bad else ""
    counts, bad_counts = [each.count for each in minutes], [each.bad for each in minutes]
    return {
        "label": f"{words_counted(total, 'event')} in {len(minutes)} minutes{given_up}.",
        "bars": bars(counts, bad_counts, tall=HISTOGRAM_TALL),
        "marks": marks(minutes),
        "to_now": query.until is None or query.until >= now,
    }


def marks(minutes: list[Minute]) -> list[tuple[datetime, str]]:
    """The times under the bars: at the beginning and at each third."""
    step = 100 / len(minutes)
    places = sorted({0, len(minutes) // 3, 2 * len(minutes) // 3})
    return [(minutes[n].at, f"{n * step:.2f}") for n in places if n < len(minutes)]
