"""The Activity page: the journal, newest first, with facets and a histogram."""

# Not a `Listing`: the clock is part of the query, facets and chart count other events than the log
# shows, and a paused log is answered with a number. It would override nearly every method.

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.cache import patch_vary_headers

from dashboard.activity import filters, queries
from dashboard.activity.counts import (
    EventBars,
    EventCounts,
    count_by_step,
    count_events,
    is_last_day,
)
from dashboard.activity.filters import EventQuery
from dashboard.activity.queries import EventEntry
from dashboard.charts.markers import read_markers
from dashboard.charts.sparklines import Bars, bars
from dashboard.frame import rendering
from dashboard.frame.live_updates import read_live_key
from dashboard.frame.navigation import here_of, read_scope, requested_project
from dashboard.frame.rendering import HtmxRequest, PageContext, Visit, compose_page
from dashboard.lists.facets import Facet
from dashboard.lists.nearest_names import suggest_names
from dashboard.lists.pagination import Page
from dashboard.lists.query_box import as_id, term
from dashboard.lists.query_syntax import add_term, enclose
from dashboard.lists.sorting import read_time_order
from dashboard.saved_views.strip import read_views
from dashboard.wording.formatting import counted
from ledger.database import server_time
from ledger.models import Event

HISTOGRAM_HEIGHT = 38

# the age in seconds up to which a heading stands above events
AGES = ((60, "Last minute"), (3600, "Last hour"), (86_400, "Last 24 hours"))
OLDER = "Older"

NOUN_ICONS = {
    "instruction": "n-instructions",
    "standing_instruction": "rule",
    "signal": "beat",
    "task": "n-tasks",
    "escalation": "n-escalations",
    "pattern": "n-patterns",
    "agent": "n-agents",
    "token": "key",
    "plan": "n-plans",
    "project": "project",
    "operation": "group",
    "session": "n-sessions",
}


@dataclass(frozen=True, slots=True)
class AgeGroup:
    """Consecutive events of about the same age."""

    name: str
    entries: list[EventEntry]


@dataclass(frozen=True, slots=True)
class Facets:
    """The filters beside the log, and the events that they count."""

    kinds: list[Facet]
    agents: list[Facet]
    scope: str


@dataclass(frozen=True, slots=True)
class Histogram:
    """The number of events per step of time as bars, with times under them."""

    label: str
    bars: Bars
    start: datetime
    end: datetime
    step_s: int
    count: int
    marks: list[tuple[datetime, str]]
    to_now: bool


# the keys that a range of time replaces
TIMES = ("older", "since", "until")
RANGES = (("1h", "1 hour"), ("6h", "6 hours"), ("24h", "24 hours"))


@dataclass(frozen=True, slots=True)
class RangeLink:
    """A range of time that ends now, with the query that shows it."""

    label: str
    query: str
    current: bool


def index(request: HtmxRequest) -> HttpResponse:
    """Show the journal; a paused page gets only the number of new events."""
    now = server_time.now()
    key = read_live_key(now=now, project=requested_project(request))
    if rendering.is_unchanged(request, key):
        return rendering.unchanged()
    visit = Visit(request, read_scope(request), "activity", now, key)
    query = filters.parse(request.GET.get("q", ""), now=now)
    if (ranged := read_range(request, query)) is not None:
        params = {**visit.scope.params, "q": ranged}
        if sort := read_time_order(request.GET).sort:
            params["sort"] = sort
        return redirect(f"{request.path}?{urlencode(params)}")
    held = as_id(request.GET.get("held", ""))
    if held and rendering.wants_part(request):
        rows = queries.filter_events(query, visit.scope.project)
        return render_new_count(visit, queries.count_newer(rows, than=held))
    return rendering.respond(
        visit, "activity/index.html", "activity/_activity.html", build_page(visit, query)
    )


def render_new_count(visit: Visit, count: int) -> HttpResponse:
    """Return the link to new events alone, which leaves opened rows as they are."""
    context = {"fresh": count, "fresh_key": visit.live_key, "here": here_of(visit.request)}
    response = render(visit.request, "activity/_fresh.html", context)
    response["HX-Retarget"], response["HX-Reswap"] = "#fresh", "outerMorph"
    patch_vary_headers(response, ["HX-Request"])
    return response


def build_page(visit: Visit, query: EventQuery) -> PageContext:
    params, project, now = visit.request.GET, visit.scope.project, visit.now
    order = read_time_order(params)
    page = queries.list_events(
        query,
        project,
        is_oldest_first=order.is_reversed,
        before=as_id(params.get("before", "")),
        after=as_id(params.get("after", "")),
    )
    counted_bars = count_by_step(query, project, now=now)
    return compose_page(
        title=f"{query.text} · Activity" if query.text else "Activity",
        heading="Activity",
        query=query,
        views=read_views(visit, "activity", query.text, order.sort),
        page=page,
        newest=find_newest(page) if not order.is_reversed else None,
        groups=group_by_age(page.rows, now=now),
        facets=build_facets(count_events(query, project, now=now), query),
        markers=read_markers(project, counted_bars.start, counted_bars.end),
        histogram=build_histogram(counted_bars, to_now=query.until is None or query.until >= now),
        order=order,
        ranges=build_ranges(query),
        rest=enclose(query.without(*TIMES)),  # the query without a range of time
        is_filtered=bool(query.text),
        hints=suggest_names(query, "activity", project, found=bool(page.rows)),
    )


def find_newest(page: Page[EventEntry]) -> UUID | None:
    return page.rows[0].event.pk if page.rows and page.newer is None else None


def group_by_age(entries: list[EventEntry], *, now: datetime) -> list[AgeGroup]:
    groups: list[AgeGroup] = []
    for entry in entries:
        name = age_of(entry.event, now=now)
        if not groups or groups[-1].name != name:
            groups.append(AgeGroup(name, []))
        groups[-1].entries.append(entry)
    return groups


def age_of(event: Event, *, now: datetime) -> str:
    age = (now - event.at).total_seconds()
    return next((name for most, name in AGES if age < most), OLDER)


def build_facets(counts: EventCounts, query: EventQuery) -> Facets:
    agents = []
    for name, count in counts.agents:
        current = query.one_agent == name
        text = query.having("agent", "" if current else term("agent", name))
        agents.append(Facet(name, text, count if counts.are_known else None, current))
    scope = "24 h" if is_last_day(query) else "" if counts.are_known else "too many to count"
    return Facets(list(build_kind_facets(counts, query)), agents, scope)


def build_kind_facets(counts: EventCounts, query: EventQuery) -> Iterator[Facet]:
    """Yield the kinds, people and the clock as filters: without numbers, all of them."""

    def build(label: str, text: str, count: int, current: bool, icon: str = "") -> Facet:
        return Facet(label, text, count if counts.are_known else None, current, icon)

    is_all = not query.one_kind and not query.is_by_people
    yield build("All", query.without("kind", "by"), counts.total, is_all)
    for noun, count in counts.nouns.items():
        current = query.one_kind == noun
        if count or current or not counts.are_known:
            text = query.having("kind", "" if current else f"kind:{noun}")
            label = noun.replace("_", " ")
            yield build(label, text, count, current, NOUN_ICONS.get(noun, "info"))
    if counts.people or query.is_by_people or not counts.are_known:
        text = query.having("by", "" if query.is_by_people else "by:people")
        yield build("by people", text, counts.people, query.is_by_people, "person")
    if counts.clock or not query.hides_clock or not counts.are_known:
        shown = filters.SHOWN in query.clock.wanted
        text = query.having("clock", "" if shown else f"clock:{filters.SHOWN}")
        yield build("timers too", text, counts.clock, shown, "clock")


def build_histogram(found: EventBars, *, to_now: bool) -> Histogram:
    counts, bad_counts = [each.count for each in found.bars], [each.bad for each in found.bars]
    total, bad = sum(counts), sum(bad_counts)
    failures = f", {bad:,} of them failures" if bad else ""
    minutes = round((found.end - found.start).total_seconds() / 60)
    return Histogram(
        label=f"{counted(total, 'event')} in {counted(minutes, 'minute')}{failures}.",
        bars=bars(counts, bad_counts, tall=HISTOGRAM_HEIGHT),
        start=found.start,
        end=found.end,
        step_s=round(found.step.total_seconds()),
        count=len(found.bars),
        marks=time_marks(found),
        to_now=to_now,
    )


def time_marks(found: EventBars) -> list[tuple[datetime, str]]:
    """Return the times at the start and at each third, with their place in percent."""
    count = len(found.bars)
    places = sorted({0, count // 3, 2 * count // 3})
    return [(found.bars[n].at, f"{n * 100 / count:.2f}") for n in places if n < count]


# ---- the range of time


def build_ranges(query: EventQuery) -> list[RangeLink]:
    rest = query.without(*TIMES)
    return [
        RangeLink(
            label,
            add_term(rest, f"since:{age}"),
            f"since:{age}" in query.terms and query.until is None,
        )
        for age, label in RANGES
    ]


def read_range(request: HtmxRequest, query: EventQuery) -> str | None:
    """Return the query with the range of time that the form names, or None if it names none."""
    typed = {key: request.GET.get(name, "") for name, key in (("from", "since"), ("to", "until"))}
    if not any(typed.values()):
        return None
    terms = (term(key, value) for key, value in typed.items() if value)
    return reduce(add_term, terms, query.without(*TIMES))
