"""The list of operations, and the page of one with its progress and its result."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.http import Http404, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboard.frame import rendering
from dashboard.frame.access import operators_only
from dashboard.frame.live_updates import stamp_key
from dashboard.frame.navigation import read_scope
from dashboard.frame.rendering import Crumb, HtmxRequest, PageContext, Visit
from dashboard.lists.facets import Facet, build_state_facets
from dashboard.lists.nearest_names import NameHints, suggest_names
from dashboard.lists.pagination import Page
from dashboard.lists.query_box import as_id
from dashboard.lists.sorting import Heading, build_headings, read_sort
from dashboard.operations import filters, queries
from dashboard.operations.filters import OperationQuery
from dashboard.operations.queries import RefusedGroup, Subject
from dashboard.operations.selections import NOUNS
from dashboard.saved_views.strip import ViewStrip, read_views
from dashboard.sentences.event_sentence import EventSentence
from dashboard.sentences.operations import describe_operation_event, words_of
from dashboard.wording.formatting import counted, duration
from ledger.models import Event
from retries.models import Operation
from retries.models.operation import OperationState
from retries.verbs.verb import Verb

# the place in the sidebar of nouns without a list in it
PLACES = {noun: listed.place for noun, listed in NOUNS.items()} | {"escalation": "escalations"}
LABELS = {
    "task": "Tasks",
    "dead_letter": "Dead letters",
    "instruction": "Instructions",
    "escalation": "Escalations",
}
# label, icon, CSS
STATES = {
    OperationState.WAITING: ("Starts soon", "s-queued", ""),
    OperationState.RUNNING: ("Running", "s-running", "st--running"),
    OperationState.DONE: ("Finished", "s-done", "st--done"),
    OperationState.STOPPED: ("Stopped", "pause", "st--retry"),
    OperationState.UNDONE: ("Undone", "undo", ""),
}
STATE_LABELS = {"all": "All"} | {state.value: label for state, (label, _, _) in STATES.items()}
HEADINGS = {"started": "Started"}


@dataclass(frozen=True, slots=True)
class Progress:
    """An operation's progress, in percent of the bar's width, and its speed."""

    changed: float
    refused: float
    done: int
    per_second: float | None
    left_s: float | None


@dataclass(frozen=True, slots=True)
class Step:
    """An event of an operation in words."""

    event: Event
    sentence: EventSentence


@dataclass(frozen=True, slots=True)
class OperationEntry:
    """An operation in the list, in words."""

    row: Operation
    words: Verb
    title: str
    label: str
    icon: str
    css: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationPage(PageContext):
    entry: OperationEntry
    row: Operation
    progress: Progress
    changed: list[Subject]
    refused: list[RefusedGroup]
    steps: list[Step]
    projects: list[str]
    list_page: str
    starts_in_s: int
    ask_stop: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationListPage(PageContext):
    query: OperationQuery
    views: ViewStrip
    states: list[Facet]
    sort: str
    headings: dict[str, Heading]
    page: Page[Operation]
    entries: list[OperationEntry]
    hints: NameHints
    subpage: str = "operations"


@require_safe
@operators_only
def index(request: HtmxRequest) -> HttpResponse:
    """Show the operations, newest first."""
    visit = rendering.begin_visit(request, current="settings")
    query = filters.parse(request.GET.get("q", ""))
    sort = read_sort(request.GET.get("sort", ""), queries.COLUMNS, None)
    counts = queries.count_states(query, visit.scope)
    page = queries.list_operations(
        query,
        visit.scope,
        sort,
        before=as_id(request.GET.get("before", "")),
        after=as_id(request.GET.get("after", "")),
    )
    listed = OperationListPage(
        title="Operations",
        heading="Operations",
        crumbs=(Crumb("Settings", reverse("dashboard:settings")),),
        query=query,
        views=read_views(visit, "operations", query.text, sort),
        states=build_state_facets(STATE_LABELS, counts, query.one_state, query),
        sort=sort,
        headings=build_headings(queries.COLUMNS, HEADINGS, sort, queries.DEFAULT_SORT),
        page=page,
        entries=[build_entry(row) for row in page.rows],
        hints=suggest_names(query, "operations", visit.scope.project, found=bool(page.rows)),
    )
    return rendering.respond(visit, "operations/index.html", "operations/_operations.html", listed)


@require_safe
@operators_only
def detail(request: HtmxRequest, operation_id: UUID) -> HttpResponse:
    """Show one operation; its part polls itself until the operation is over."""
    scope, now = read_scope(request), timezone.now()
    row = queries.find_operation(scope, operation_id)
    if row is None:
        raise Http404(f"There is no operation {operation_id}.")
    key = build_live_key(row, now)
    if rendering.is_unchanged(request, key):
        return rendering.unchanged()
    visit = Visit(request, scope, PLACES[row.noun], now, key)
    page = build_page(row, now=now, ask_stop=request.GET.get("ask") == "stop")
    return rendering.respond(visit, "operations/detail.html", "operations/_operation.html", page)


def build_live_key(row: Operation, now: datetime) -> str:
    return stamp_key(now, f"{row.state}.{row.changed}.{row.refused}")


def build_page(row: Operation, *, now: datetime, ask_stop: bool) -> OperationPage:
    entry = build_entry(row)
    done = row.changed + row.refused
    running = row.state == OperationState.RUNNING
    return OperationPage(
        title=f"{done:,} of {row.total:,} · {entry.title}" if running else entry.title,
        heading=entry.title,
        crumbs=(Crumb(LABELS[row.noun], reverse(f"dashboard:{PLACES[row.noun]}")),),
        entry=entry,
        row=row,
        progress=measure_progress(row, now=now),
        changed=queries.list_changed(row),
        refused=queries.list_refused(row),
        steps=[Step(event, describe_operation_event(event)) for event in queries.list_steps(row)],
        projects=queries.list_project_names(row),
        list_page=f"dashboard:{PLACES[row.noun]}",
        starts_in_s=max(0, round((row.starts_at - now).total_seconds())),
        ask_stop=ask_stop and row.is_under_way,
    )


def build_entry(row: Operation) -> OperationEntry:
    label, icon, css = STATES[OperationState(row.state)]
    return OperationEntry(row, words_of(row.verb), describe_title(row), label, icon, css)


def describe_title(row: Operation) -> str:
    words, nouns = words_of(row.verb), counted(row.total, words_of(row.verb).row)
    match row.state:
        case OperationState.WAITING | OperationState.RUNNING:
            return f"{words.doing} {nouns}{words.tail}"
        case OperationState.UNDONE:
            return f"{words.do} {nouns}{words.tail}: undone"
    if row.changed == row.total:
        return f"{words.done.capitalize()} {nouns}{words.tail}"
    return f"{words.done.capitalize()} {row.changed:,} of {nouns}{words.tail}"


def measure_progress(row: Operation, *, now: datetime) -> Progress:
    done, rate = row.changed + row.refused, None
    if row.started_at:
        seconds = ((row.ended_at or now) - row.started_at).total_seconds()
        rate = done / seconds if seconds >= 1 and done else None
    share = 100 / row.total
    left_s = row.left / rate if rate and row.state == OperationState.RUNNING else None
    return Progress(row.changed * share, row.refused * share, done, rate, left_s)


def took(row: Operation) -> str:
    if row.started_at is None or row.ended_at is None:
        return ""
    return duration((row.ended_at - row.started_at).total_seconds())
