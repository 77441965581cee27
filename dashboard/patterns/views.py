"""The list of failure patterns, and the page of one pattern with its failures."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.http import Http404
from django.urls import reverse_lazy

from dashboard import steps
from dashboard.actions import Action
from dashboard.form_values import read_whole_number
from dashboard.frame.live_updates import read_live_key
from dashboard.frame.rendering import Crumb, PageContext, Steps, Visit, live_page
from dashboard.lists.facets import Facet, build_state_facets
from dashboard.lists.nearest_names import NameHints, suggest_names
from dashboard.lists.pagination import PAGE
from dashboard.lists.sorting import Heading, build_headings, read_sort
from dashboard.patterns import filters, queries
from dashboard.patterns.actions import ACTIONS, IGNORE_TIMES, allowed_actions
from dashboard.patterns.filters import PatternQuery
from dashboard.patterns.queries import Days, Example, PatternList
from dashboard.saved_views.strip import ViewStrip, read_views
from ledger.models import Agent
from retries.failures import figures
from retries.failures.fixes import reading as fixes
from retries.failures.fixes import suggestions
from retries.failures.fixes import verdicts as fix_verdicts
from retries.failures.fixes.reading import FixState, LearnedFix
from retries.failures.fixes.suggestions import Suggestion, WorkedFix
from retries.failures.stuck_tasks import StuckTasks
from retries.models import FailurePattern, Grouped
from retries.states import Verdict

CRUMB = Crumb("Patterns", reverse_lazy("dashboard:patterns"))
STATES = {"open": "Open", "ignored": "Ignored", "resolved": "Resolved", "all": "All"}
LABELS = {"failures": "Failures", "first": "First seen", "seen": "Last seen"}
LAST_PAGE = queries.CONSIDERED // PAGE + 1


# ---- one pattern

FIXES_SHOWN = 20
FIX_STATES = {
    FixState.PROMOTED: "Promoted",
    FixState.ADVICE: "Advice",
    FixState.TRIED: "Tried",
    FixState.RETIRED: "Retired",
}
FIX_VERBS = {Verdict.PROMOTED: "promote", Verdict.RETIRED: "retire", None: "reset"}


@dataclass(frozen=True, slots=True)
class ListedFix:
    """A fix for the failures of one signature, with what a person can do about it."""

    fix: LearnedFix

    @property
    def state(self) -> str:
        return FIX_STATES[self.fix.state]

    @property
    def about(self) -> str:
        """What the errors name that it is for."""
        return ", ".join(self.fix.entities) or "errors that name nothing"

    @property
    def verbs(self) -> list[str]:
        return [FIX_VERBS[each] for each in fix_verdicts.list_moves(self.fix)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternPage(PageContext):
    row: FailurePattern
    stuck: StuckTasks
    actions: list[Action]
    days: Days
    agents: list[Agent]
    failures: list[Grouped]
    examples: list[Example]
    merged: list[str]
    total: int
    suggestion: Suggestion | None
    worked_fixes: list[WorkedFix]
    fixes: list[ListedFix]
    times: tuple[tuple[int, str], ...] = IGNORE_TIMES


def read_detail_key(now: datetime) -> str:
    # the tasks that a pattern's page shows belong to any project
    return read_live_key(now=now, of=FailurePattern)


@live_page(
    "patterns/detail.html", "patterns/_pattern.html", current="patterns", read_key=read_detail_key
)
def detail(visit: Visit, pattern_id: UUID) -> PatternPage:
    """Show one pattern: its failures, possible fixes and stuck tasks."""
    row = queries.find_pattern(pattern_id)
    if row is None:
        raise Http404(f"There is no pattern {pattern_id}.")
    stuck = queries.count_stuck_tasks(row)
    outcomes = fixes.fetch_outcomes([row.pk])
    learned = fixes.list_learned_fixes(row.pk, outcomes=outcomes)
    failures = queries.list_failures(row)
    return PatternPage(
        title=f"{row.template[:60]} · Pattern",
        heading=row.fingerprint[:8],
        crumbs=(CRUMB,),
        list_steps=find_steps(visit, row.pk),
        row=row,
        stuck=stuck,
        actions=allowed_actions(row.state, stuck=stuck.total),
        days=queries.count_days(row, now=visit.now),
        agents=queries.list_agents(row),
        failures=failures[: queries.FAILURES_SHOWN],
        examples=queries.pick_examples(failures),
        merged=figures.list_merged_templates(row),
        total=queries.count_all_failures(row),
        suggestion=suggestions.suggest(failures[0].failure) if failures else None,
        worked_fixes=suggestions.list_worked_fixes(row.pk, outcomes=outcomes),
        fixes=[ListedFix(each) for each in learned[:FIXES_SHOWN]],
    )


def find_steps(visit: Visit, pattern_id: UUID) -> Steps | None:
    if not steps.are_shown(visit):
        return None
    params = visit.request.GET
    sort = read_sort(params.get("sort", ""), queries.COLUMNS, None)
    ids = queries.list_ids(filters.parse(params.get("q", "")), visit.scope.project, sort=sort)
    beside = steps.place_in(ids, pattern_id)
    return steps.build_steps(visit, beside, place="patterns", page="pattern", with_shift=True)


# ---- the list


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternListPage(PageContext):
    query: PatternQuery
    views: ViewStrip
    counts: dict[str, int]
    total: int | None
    states: list[Facet]
    headings: dict[str, Heading]
    sort: str
    listed: PatternList
    actions: list[Action]
    hints: NameHints
    considered: int = queries.CONSIDERED


@live_page("patterns/index.html", "patterns/_patterns.html", current="patterns", of=FailurePattern)
def index(visit: Visit) -> PatternListPage:
    """Show the patterns that the query asks for, the last seen first."""
    params, project = visit.request.GET, visit.scope.project
    query = filters.parse(params.get("q", ""))
    sort = read_sort(params.get("sort", ""), queries.COLUMNS, None)
    counts = queries.count_patterns(query, project)
    state = query.one_state
    listed = queries.list_patterns(
        query,
        project,
        sort=sort,
        page=read_page_number(params.get("page", "")),
        now=visit.now,
    )
    return PatternListPage(
        title=f"{counts['open']:,} open · Patterns" if counts["open"] else "Patterns",
        heading="Patterns",
        query=query,
        views=read_views(visit, "patterns", query.text, sort),
        counts=counts,
        total=counts.get(state),
        states=build_state_facets(STATES, counts, state, query, default="open"),
        headings=build_headings(queries.COLUMNS, LABELS, sort, queries.DEFAULT_SORT),
        sort=sort,
        listed=listed,
        actions=list(ACTIONS.values()),
        hints=suggest_names(query, "patterns", project, found=bool(listed.rows)),
    )


def read_page_number(text: str) -> int:
    """Return the page number, or 1 if it is not a number."""
    return min(max(read_whole_number(text) or 1, 1), LAST_PAGE)
