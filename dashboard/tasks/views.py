"""The list of tasks with its facets, and the page of one task."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.urls import reverse_lazy

from dashboard import steps
from dashboard.actions import find_asked, list_allowed
from dashboard.agents.presence import breaker_state
from dashboard.assignment import read_comments
from dashboard.date_range import open_dates
from dashboard.frame.access import may_use
from dashboard.frame.found_rows import require_row
from dashboard.frame.rendering import Crumb, PageContext, Steps, Visit, compose_page, live_page
from dashboard.lists.nearest_names import suggest_names
from dashboard.lists.query_box import as_id
from dashboard.lists.shared_queries import list_history
from dashboard.lists.sorting import SORTABLE, Heading, build_headings, read_sort, read_sort_of
from dashboard.saved_views.columns import read_columns
from dashboard.saved_views.strip import read_views
from dashboard.sentences.tasks import describe_cause, describe_outside
from dashboard.tasks import detail_queries
from dashboard.tasks import filters as task_filters
from dashboard.tasks.attempt_comparison import compare_attempts, list_rows
from dashboard.tasks.dependency_graph import build_graph
from dashboard.tasks.evidence import build_evidence
from dashboard.tasks.filters import TaskQuery
from dashboard.tasks.listing import order
from dashboard.tasks.listing.counts import TaskCounts, count_tasks
from dashboard.tasks.listing.facet_counts import count_changes, count_patterns
from dashboard.tasks.listing.facets import Facets, build_facets
from dashboard.tasks.queries import OUTCOMES_SHOWN, fetch_headlines, filter_tasks
from dashboard.tasks.timeline import Move, build_timeline, list_moves, round_up
from dashboard.tasks.waiting import describe_status, find_hold
from dashboard.wording.json_tree import build_tree, json_size
from dashboard.wording.status_text import StatusText
from ledger.authorization.permissions import may
from ledger.models import Attempt, Event, Failure, Project, Task
from ledger.moves import CHECKPOINT
from ledger.states import BreakerState, TaskState
from retries.budgets.reading import list_of_task
from retries.claiming.attempt_traces import link_to_trace
from retries.failures.fixes.suggestions import Suggestion, suggest
from retries.failures.grouping import headline_of
from retries.insight.prediction_reads import find_task_predictions
from retries.insight.predictions import Prediction
from retries.tasks.outside_files import FIELD
from retries.verbs import tasks
from retries.verbs.verb import Verb

CRUMB = Crumb("Tasks", reverse_lazy("dashboard:tasks"))
LABELS = {
    "task": "Task",
    "key": "Key",
    "agent": "Agent",
    "type": "Type",
    "priority": "Priority",
    "attempts": "Attempts",
    "created": "Created",
    "changed": "Changed",
}
TRACES_SHOWN = 10
OUTSIDE_SHOWN = 3
# values of `state:` that make the list show errors by default
TROUBLE = {"needs-you", "escalated", "failed"}
# the states in which a task has attempts left
UNDER_WAY = (TaskState.QUEUED, TaskState.RUNNING, TaskState.RETRY)


# ---- one task


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """A move of the task with its cause."""

    move: Move
    why: str


@dataclass(frozen=True, slots=True)
class FailureCard:
    """The last failure: the line that tells its cause, and the pattern that it belongs to."""

    failure: Failure
    headline: str
    said: Suggestion
    pattern_id: UUID | None


@live_page("tasks/detail.html", "tasks/_task.html", current="tasks", of=Task, row="task_id")
def detail(visit: Visit, task_id: UUID) -> PageContext:
    row, now = require_row(detail_queries.find_task(task_id), "task", task_id), visit.now
    is_due = row.due_at is not None and row.due_at <= now
    allowed = list_allowed(tasks.PAGE, row)
    actions = [verb for verb in allowed if verb is not tasks.RETRY_NOW or not is_due]
    attempts = detail_queries.list_attempts(row)
    # attempts of an earlier run that this task continues come before its timeline
    own_attempts = [attempt for attempt in attempts if attempt.task_id == row.pk]
    row.outcomes = [attempt.outcome for attempt in attempts][-OUTCOMES_SHOWN:]
    events = list(list_history(row.pk))
    around = detail_queries.list_neighbors(row)
    by_work = visit.request.GET.get("timeline") != "clock"
    failures = detail_queries.failures_of(attempts)
    compared = compare_attempts(attempts, now=now)
    return compose_page(
        title=f"{str(row)[:60]} · Task",
        heading=row.ref or f"…{str(row.pk)[-8:]}",
        crumbs=(CRUMB,),
        list_steps=find_steps(visit, row),
        row=row,
        due=describe_status(row, now=now),
        hold=find_hold(row, now=now),
        budgets=list_of_task(row, now=now),
        holder=detail_queries.find_holder(row),
        can_retry=detail_queries.can_retry(row),
        actions=actions,
        asked=find_asked(visit.request, actions),
        question=detail_queries.build_open_escalation(row),
        is_probe=is_probe(row),
        attempts=attempts,
        live=next((each for each in reversed(attempts) if each.outcome is None), None),
        last=own_attempts[-1] if own_attempts else None,
        conversations=detail_queries.list_conversations(attempts) if attempts else [],
        traces=link_traces(attempts),
        traced=detail_queries.list_traced(attempts)[:TRACES_SHOWN],
        failures=failures,
        source=detail_queries.find_source(attempts),
        flaky=detail_queries.find_flaky_check(attempts),
        timeline=build_timeline(
            row, events, own_attempts, now=round_up(now, row.created_at), by_work=by_work
        ),
        by_work=by_work,
        card=None if row.state == TaskState.DONE else build_card(attempts),
        evidence=build_evidence(row, own_attempts, accepted=detail_queries.find_acceptance(row)),
        outside=describe_outside_files(attempts),
        compared=compared if len(compared) > 1 else [],
        compared_rows=list_rows(
            compared, only_differences=visit.request.GET.get("differences") == "only"
        ),
        comments=read_comments(row),
        history=describe_history(events, agent=row.agent.name),
        around=around,
        waiting=sum(each.state == TaskState.BLOCKED for each in around.dependents),
        graph=build_graph(row, around.needs, around.dependents) if around else None,
        prediction=find_prediction(row),
        payload=build_tree(row.payload),
        payload_size=json_size(row.payload),
        result=build_tree(row.result),
    )


def find_steps(visit: Visit, row: Task) -> Steps | None:
    if not steps.are_shown(visit):
        return None
    params = visit.request.GET
    query = task_filters.parse(params.get("q", "")).seen_by(visit.request.user)
    rows = filter_tasks(query, visit.scope.project)
    sort = read_sort_of(params.get("sort", ""), order.COLUMNS, rows)
    beside = order.find_beside_task(query, visit.scope.project, sort, row)
    return steps.build_steps(visit, beside, place="tasks", page="task")


def build_card(attempts: Sequence[Any]) -> FailureCard | None:
    """Return the card of the newest failure, or None without one."""
    for attempt in reversed(attempts):
        if last := getattr(attempt, "failure", None):
            headline = headline_of(last) or last.message.strip().partition("\n")[0]
            return FailureCard(last, headline, suggest(last), attempt.pattern_id)
    return None


def describe_outside_files(attempts: Sequence[Attempt]) -> list[str]:
    marked = [
        f"Attempt {attempt.number} {describe_outside(attempt.decision[FIELD])}."
        for attempt in reversed(attempts)
        if attempt.decision and attempt.decision.get(FIELD)
    ]
    return marked[:OUTSIDE_SHOWN]


def link_traces(attempts: Sequence[Attempt]) -> list[tuple[Attempt, str]]:
    """Return the last attempts that have a trace with its address, newest first."""
    found = [(attempt, link_to_trace(attempt)) for attempt in reversed(attempts)]
    return [(attempt, url) for attempt, url in found if url][:TRACES_SHOWN]


def find_prediction(row: Task) -> Prediction | None:
    # Only a task with attempts left has a chance, and a checkpoint has none.
    if row.state not in UNDER_WAY or row.type.startswith(CHECKPOINT):
        return None
    return find_task_predictions([row.pk]).get(row.pk)


def describe_history(events: Sequence[Event], *, agent: str) -> list[HistoryRow]:
    return [
        HistoryRow(move, describe_cause(move.event, agent=agent)) for move in list_moves(events)
    ]


def is_probe(row: Any) -> bool:
    # A half-open breaker closes or opens by its probe.
    if row.current_attempt is None or breaker_state(row.agent) != BreakerState.HALF_OPEN:
        return False
    return bool(row.agent.breaker.probe_attempt == row.current_attempt)


# ---- the list


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table, which may be shown only on request."""

    name: str
    heading: Heading
    shown: bool = True
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the list."""

    row: Any
    title: str
    due: StatusText
    headline: str


@live_page("tasks/index.html", "tasks/_tasks.html", current="tasks", of=Task)
def index(visit: Visit) -> PageContext | HttpResponse:
    request, scope = visit.request, visit.scope
    query = task_filters.parse(request.GET.get("q", "")).seen_by(request.user)
    if (dated := open_dates(request, query, "changed")) is not None:
        return dated
    counts = count_tasks(query, scope.project)
    total = None if counts.is_cut(query) else counts.of(query)
    asked = request.GET.get("sort", "")
    sort = read_sort(asked, order.COLUMNS, SORTABLE + 1 if total is None else total)
    page = order.list_tasks(
        query,
        scope.project,
        sort,
        before=as_id(request.GET.get("before", "")),
        after=as_id(request.GET.get("after", "")),
    )
    states = query.state.wanted
    seeks_errors = query.words or query.error.wanted or (states and TROUBLE.issuperset(states))
    usual = ["error"] if seeks_errors else []
    shown = set(request.GET.getlist("column") or [*read_columns(visit, "tasks"), *usual])
    chosen = order.choose_sort(sort, is_common=counts.is_common)
    columns = build_columns(chosen, shown, of_one_project=scope.project is not None)
    headlines = fetch_headlines(page.rows) if "error" in shown else {}
    return compose_page(
        title=f"{query.text} · Tasks" if query.text else "Tasks",
        heading="Tasks",
        query=query,
        views=read_views(
            visit,
            "tasks",
            query.text,
            sort,
            rows=lambda text: filter_tasks(
                task_filters.parse(text).seen_by(request.user), scope.project
            ),
        ),
        facets=read_facets(query, counts, scope.project),
        total=total,
        sort=sort,
        can_sort=sort == asked,
        columns=columns,
        shown={column.name for column in columns if column.shown},
        can_pick=may_use(request, "task_act") and may_use(request, "operation_new"),
        page=page,
        entries=[
            Entry(row, str(row), describe_status(row, now=visit.now), headlines.get(row.pk, ""))
            for row in page.rows
        ],
        bulk_verbs=list_bulk_verbs(visit),
        hints=suggest_names(query, "tasks", scope.project, found=bool(page.rows)),
    )


def read_facets(query: TaskQuery, counts: TaskCounts, project: Project | None) -> Facets:
    patterns = count_patterns(query, project, counts)
    return build_facets(query, counts, patterns, count_changes(query, project, counts))


def list_bulk_verbs(visit: Visit) -> tuple[Verb, ...]:
    person, project = visit.request.user, visit.scope.project
    where = project.id if project else None
    return tuple(verb for verb in tasks.LIST if may(person, verb.permission, where))


def build_columns(sort: str, shown: set[str], *, of_one_project: bool) -> list[Column]:
    # Optional columns are shown only if they are chosen.
    headings = build_headings(order.COLUMNS, LABELS, sort)

    def column(name: str, css: str = "", *, optional: bool = False) -> Column:
        heading = replace(headings[name], css=css)
        return Column(name, heading, shown=not optional or name in shown, is_optional=optional)

    first = Column("state", Heading("State", "t-state", "", "" if sort else "descending"))
    project = [] if of_one_project else [Column("project", Heading("Project", "c-lg t-proj"))]
    return [
        first,
        column("task"),
        column("key", "c-md t-key"),
        Column("error", Heading("Error", ""), shown="error" in shown, is_optional=True),
        column("agent", "t-agent"),
        *project,
        column("type", "c-lg t-kind", optional=True),
        column("priority", "c-lg t-prio", optional=True),
        Column("proof", Heading("Proof", "c-lg t-proof"), shown="proof" in shown, is_optional=True),
        column("attempts", "t-att"),
        column("created", "c-lg r t-age", optional=True),
        column("changed", "r t-age"),
    ]
