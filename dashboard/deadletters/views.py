"""The list of dead letters, grouped by cause, and the page of one dead letter."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.http import Http404, HttpResponse
from django.urls import reverse_lazy

from dashboard import steps
from dashboard.actions import find_asked, list_allowed
from dashboard.date_range import DateRange, find_dates, open_dates
from dashboard.deadletters import queries
from dashboard.deadletters.causes import CauseGroup, add_counts, group_by_cause
from dashboard.frame.rendering import Crumb, PageContext, Steps, Visit, live_page
from dashboard.lists.facets import Facet, build_state_facets
from dashboard.lists.nearest_names import NameHints, suggest_names
from dashboard.lists.pagination import Page
from dashboard.lists.query_box import ANY, as_id
from dashboard.lists.sorting import Heading, build_headings, read_sort, read_sort_of
from dashboard.saved_views.strip import ViewStrip, read_views
from dashboard.tasks import detail_queries
from dashboard.tasks import filters as task_filters
from dashboard.tasks.filters import TaskQuery
from dashboard.wording.json_tree import Node, build_tree, json_size
from ledger.models import DeadLetter, Failure, Project, Task
from retries.verbs import dead_letters
from retries.verbs.verb import Verb

CRUMB = Crumb("Dead letters", reverse_lazy("dashboard:deadletters"))
STATES = {"open": "Open", "replayed": "Replayed", "dismissed": "Dismissed"}
LABELS = {
    "name": "Name",
    "agent": "Agent",
    "type": "Type",
    "attempts": "Attempts",
    "failed": "Failed",
}


# ---- one dead letter


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterPage(PageContext):
    letter: Any
    row: Task
    actions: list[Verb]
    asked: Verb | None
    failures: list[Failure]
    waiting: int
    payload: Node
    payload_size: int


@live_page(
    "deadletters/detail.html",
    "deadletters/_deadletter.html",
    current="deadletters",
    of=DeadLetter,
    row="letter_id",
)
def detail(visit: Visit, letter_id: UUID) -> DeadLetterPage:
    """Show one dead letter with the failures of its attempts."""
    letter = queries.find_deadletter(letter_id)
    if letter is None:
        raise Http404(f"There is no dead letter {letter_id}.")
    actions = list_allowed(dead_letters.VERBS, letter)
    return DeadLetterPage(
        title=f"{str(letter.task)[:60]} · Dead letter",
        heading=f"…{str(letter.pk)[-8:]}",
        crumbs=(CRUMB,),
        list_steps=find_steps(visit, letter.pk),
        letter=letter,
        row=letter.task,
        actions=actions,
        asked=find_asked(visit.request, actions),
        failures=detail_queries.failures_of(detail_queries.list_attempts(letter.task)),
        waiting=letter.waiting,
        payload=build_tree(letter.payload),
        payload_size=json_size(letter.payload),
    )


def find_steps(visit: Visit, letter_id: UUID) -> Steps | None:
    if not steps.are_shown(visit):
        return None
    params = visit.request.GET
    query = task_filters.parse(params.get("q", ""), task_filters.LETTER_KEYS)
    rows = queries.filter_deadletters(query, visit.scope.project)
    sort = read_sort_of(params.get("sort", ""), queries.SORT_COLUMNS, rows)
    beside = steps.find_beside(rows, letter_id, sort, queries.SORT_COLUMNS)
    return steps.build_steps(visit, beside, place="deadletters", page="deadletter")


# ---- the list


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterListPage(PageContext):
    query: TaskQuery
    views: ViewStrip
    states: list[Facet]
    total: int | None
    dates: DateRange
    sort: str
    headings: dict[str, Heading]
    page: Page[Any]
    by_cause: bool
    groups: list[CauseGroup]
    cause: CauseGroup | None  # beside the list
    bulk_verbs: tuple[Verb, ...]
    recently_closed: list[Any]
    can_act_on_all: bool
    hints: NameHints


@live_page(
    "deadletters/index.html",
    "deadletters/_deadletters.html",
    current="deadletters",
    of=DeadLetter,
)
def index(visit: Visit) -> DeadLetterListPage | HttpResponse:
    """Show the dead letters that the query asks for, by cause or newest first."""
    params, project = visit.request.GET, visit.scope.project
    query = task_filters.parse(params.get("q", ""), task_filters.LETTER_KEYS)
    if (dated := open_dates(visit.request, query, "failed")) is not None:
        return dated
    counts = queries.count_deadletters(query, project)
    by_cause = params.get("group") != "time"
    state = "open" if query.one_state == "all" else query.one_state
    asked = "" if by_cause else params.get("sort", "")
    sort = read_sort(asked, queries.SORT_COLUMNS, counts.get(state))
    page = queries.list_deadletters(
        query,
        project,
        sort,
        before=as_id(params.get("before", "")),
        after=as_id(params.get("after", "")),
    )
    groups = read_groups(page.rows, query, project) if by_cause else []
    return DeadLetterListPage(
        title=f"{query.text} · Dead letters" if query.text else page_title(counts["open"]),
        heading="Dead letters",
        query=query,
        views=read_views(visit, "deadletters", query.text, sort),
        states=build_state_facets(STATES, counts, state, query, default="open"),
        total=counts.get(state),
        dates=find_dates("failed", query.failed),
        sort=sort,
        headings=build_headings(queries.SORT_COLUMNS, LABELS, sort, queries.DEFAULT_SORT),
        page=page,
        by_cause=by_cause,
        groups=groups or ([CauseGroup("all", "", page.rows)] if page.rows else []),
        cause=find_cause(groups, params.get("cause", "")),
        bulk_verbs=dead_letters.VERBS,
        recently_closed=queries.list_recently_closed(project) if not query.text else [],
        can_act_on_all=state == "open",
        hints=suggest_names(query, "deadletters", project, found=bool(page.rows)),
    )


def read_groups(letters: list[Any], query: TaskQuery, project: Project | None) -> list[CauseGroup]:
    """Return the groups of a page with the counts of the whole list.

    A query for patterns finds dead letters whose other failures are of them; those are counted on
    the page alone.
    """
    groups = group_by_cause(letters)
    ids = [group.pattern_id for group in groups if group.pattern_id]
    return add_counts(
        groups, queries.count_causes(query, project, ids) if query.pattern == ANY else {}
    )


def page_title(count: int) -> str:
    if not count:
        return "Dead letters"
    return f"{count:,} dead letter{'' if count == 1 else 's'}"


def find_cause(groups: list[CauseGroup], id: str) -> CauseGroup | None:
    """Return the group with that id, or else the largest."""
    return next((group for group in groups if group.id == id), groups[0] if groups else None)
