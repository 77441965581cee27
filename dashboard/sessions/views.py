"""The list of sessions with its facets."""

from dataclasses import dataclass
from datetime import datetime

from dashboard.frame.live_updates import read_session_list_key
from dashboard.frame.rendering import PageContext, Visit, live_page
from dashboard.lists.facets import Facet, build_value_facets
from dashboard.lists.nearest_names import NameHints, suggest_names
from dashboard.lists.sorting import Heading
from dashboard.saved_views.strip import ViewStrip, read_views
from dashboard.sessions import filters, queries, rows
from dashboard.sessions.filters import STATES, SessionQuery
from dashboard.sessions.queries import ActivityPage, SessionCounts, SessionOrder, read_cursor
from dashboard.sessions.rows import SessionEntry, describe_row
from dashboard.wording import badges

LINKS = (("linked", "Linked", "link"), ("none", "Not linked", "person"))
LABELS = {"active": "Active", "messages": "Messages"}
TRACKERS = {"todo": "To-do calls", "llm": "A model", "none": "Nothing: store only"}


@dataclass(frozen=True, slots=True)
class Facets:
    states: list[Facet]
    agents: list[Facet]
    attempts: list[Facet]
    trackers: list[Facet]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionListPage(PageContext):
    query: SessionQuery
    views: ViewStrip
    facets: Facets
    total: int
    page: ActivityPage
    entries: list[SessionEntry]
    hints: NameHints
    threshold: int
    order: SessionOrder
    headings: dict[str, Heading]


def read_key(now: datetime) -> str:
    return read_session_list_key(now=now)


@live_page("sessions/index.html", "sessions/_sessions.html", current="sessions", read_key=read_key)
def index(visit: Visit) -> SessionListPage:
    """Show the sessions that the query asks for, most recently active first unless it is sorted."""
    request, scope, now = visit.request, visit.scope, visit.now
    order = queries.read_order(request.GET.get("sort", ""))
    query = filters.parse(request.GET.get("q", ""))
    counts = queries.count_sessions(query, scope.project, now)
    page = queries.list_sessions(
        query,
        scope.project,
        order,
        before=read_cursor(request.GET.get("before", ""), order),
        after=read_cursor(request.GET.get("after", ""), order),
        now=now,
    )
    return SessionListPage(
        title=f"{query.text} · Sessions" if query.text else "Sessions",
        heading="Sessions",
        query=query,
        views=read_views(visit, "sessions", query.text, request.GET.get("sort", "")),
        facets=build_facets(counts, query),
        total=find_total(counts, query),
        page=page,
        threshold=rows.read_threshold(),
        order=order,
        headings={name: build_heading(name, order) for name in queries.ORDER_COLUMNS},
        entries=[describe_row(row, now=now) for row in page.rows],
        hints=suggest_names(query, "sessions", visit.scope.project, found=bool(page.rows)),
    )


def build_heading(name: str, order: SessionOrder) -> Heading:
    """Return how a column's heading looks, and the order that a click on it asks for."""
    if order.name != name:
        return Heading(LABELS[name], sort=name)
    if order.descending:
        return Heading(LABELS[name], sort=f"-{name}", direction="descending")
    sort = "" if name == "active" else name
    return Heading(LABELS[name], sort=sort, direction="ascending")


def find_total(counts: SessionCounts, query: SessionQuery) -> int:
    """Return the number of matching sessions, from the counts of the facets."""
    wanted = query.state.wanted or STATES
    return sum(counts.states[each] for each in wanted if each not in query.state.unwanted)


def build_facets(counts: SessionCounts, query: SessionQuery) -> Facets:
    everything = query.one_state == "all"
    states = [Facet("All", query.having("state", ""), counts.total, everything, "n-sessions")]
    for state in STATES:
        badge, current = badges.session_badge(state), query.one_state == state
        text = query.having("state", "" if current else f"state:{state}")
        states.append(
            Facet(badge.label, text, counts.states[state], current, badge.icon, badge.css)
        )
    return Facets(
        states=states,
        agents=build_value_facets("agent", counts.agents, query.one_agent, query),
        attempts=[
            Facet(
                label,
                query.having("attempt", "" if query.one_attempt == name else f"attempt:{name}"),
                counts.attempts[name],
                query.one_attempt == name,
                icon,
            )
            for name, label, icon in LINKS
        ],
        trackers=[
            Facet(
                TRACKERS.get(name, name),
                query.having("tracker", "" if query.one_tracker == name else f"tracker:{name}"),
                n,
                query.one_tracker == name,
            )
            for name, n in counts.trackers
        ],
    )
