"""The list of tasks with its filters, and one task with its story."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import Http404, HttpResponse
from django.urls import reverse_lazy
from django.utils import timezone
from django.views.decorators.http import require_GET

from dashboard import badges, live_updates, query_box, rendering, shared_queries
from dashboard.access import operators_only
from dashboard.json_tree import size, tree
from dashboard.navigation import Scope, project_named, scope_of
from dashboard.rendering import HtmxRequest
from dashboard.selection import Asked, asked
from dashboard.sentences.tasks import why
from dashboard.status_text import StatusText
from dashboard.tasks import dependency_graph, detail_queries, queries
from dashboard.tasks import filters as task_filters
from dashboard.tasks.actions import ACTIONS, allowed_actions
from dashboard.tasks.filters import TaskQuery
from dashboard.tasks.timeline import Move, moves, timeline
from dashboard.tasks.waiting import breaker_state, due
from ledger import agents
from ledger.models import Event, Task
from ledger.states import BreakerState, TaskState

CRUMB = {"label": "Tasks", "url": reverse_lazy("dashboard:tasks")}
# the states beside the list, in the order of what they ask of a person
ORDER = (
    TaskState.ESCALATED,
    TaskState.QUEUED,
    TaskState.RUNNING,
    TaskState.RETRY,
    TaskState.BLOCKED,
    TaskState.DONE,
    TaskState.FAILED,
    TaskState.SKIPPED,
    TaskState.ABORTED,
)


@require_GET
@operators_only
def index(request: HtmxRequest) -> HttpResponse:
    """The tasks that the query asks for, newest first."""
    now = timezone.now()
    key = live_updates.read_live_key(now=now, project=project_named(request), of=Task)
    if rendering.is_unchanged(request, key):
        return rendering.unchanged()
    scope = scope_of(request)
    query = task_filters.parse(request.GET.get("q", ""))
    context = {
        "live_key": key,
        "now": now,
        "heading": "Tasks",
        "title": f"{query.text} · Tasks" if query.text else "Tasks",
        **listing(request, query, scope, now=now),
    }
    return rendering.respond(
        request, "tasks/index.html", "tasks/_tasks.html", context, scope=scope, current="tasks"
    )


@require_GET
@operators_only
def detail(request: HtmxRequest, task_id: UUID) -> HttpResponse:
    """Everything about one task."""
    now = timezone.now()
    key = live_updates.read_live_key(now=now, row=task_id, of=Task)
    if rendering.is_unchanged(request, key):
        return rendering.unchanged()
    row = detail_queries.one(task_id)
    if row is None:
        raise Http404(f"There is no task {task_id}.")
    offers = allowed_actions(row, now)
    wanted = ACTIONS.get(request.GET.get("ask", ""))
    context = {
        "live_key": key,
        "now": now,
        "title": f"{str(row)[:60]} · Task",
        "heading": row.ref or f"…{str(row.pk)[-8:]}",
        "crumbs": [CRUMB],
        "row": row,
        "due": due(row, now=now),
        "offers": offers,
        "asked": wanted if wanted in offers and wanted.question else None,
        "question": detail_queries.question(row.pk),
        "is_probe": is_probe(row),
        **told(row, now=now),
    }
    return rendering.respond(
        request,
        "tasks/detail.html",
        "tasks/_task.html",
        context,
        scope=scope_of(request),
        current="tasks",
    )


# ---- one


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the history."""

    move: Move
    why: str


def told(row: Task, *, now: datetime) -> dict[str, Any]:
    """Its story: waits and attempts, what failed, how it moved, its neighbours."""
    attempts = detail_queries.attempts(row)
    events = list(shared_queries.list_history(row.pk))
    around = detail_queries.neighbours(row.pk)
    return {
        "attempts": attempts,
        "live": next((each for each in reversed(attempts) if each.outcome is None), None),
        "failures": detail_queries.failures(attempts),
        # what it carries on was before its time began
        "timeline": timeline(row, events, [a for a in attempts if a.task_id == row.pk], now=now),
        "lines": lines(events, agent=row.agent.name, now=now),
        "around": around,
        "waiting": sum(each.state == TaskState.BLOCKED for each in around.dependents),
        "graph": dependency_graph.graph(row, around.needs, around.dependents) if around else None,
        "payload": tree(row.payload),
        "payload_size": size(row.payload),
        "result": tree(row.result),
    }


def lines(events: Sequence[Event], *, agent: str, now: datetime) -> list[Line]:
    return [Line(move, why(move.event, agent=agent)) for move in moves(events, now=now)]


def is_probe(row: Any) -> bool:
    """Whether this attempt shows if its agent works again."""
    if row.current_attempt is None or breaker_state(row) != BreakerState.HALF_OPEN:
        return False
    return bool(row.agent.breaker.probe_attempt == row.current_attempt)


# ---- the list


@dataclass(frozen=True, slots=True)
class Facet:
    """A value of a key beside the list: the query that asks for it, or takes it back."""

    label: str
    query: str
    count: int
    current: bool
    icon: str = ""
    css: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """A line with what its task waits for."""

    row: Any
    due: StatusText
    is_chosen: bool


def listing(
    request: HtmxRequest, query: TaskQuery, scope: Scope, *, now: datetime
) -> dict[str, Any]:
    """The rows that the query asks for, with the counts of the others."""
    tallies = queries.tallies(query, scope.project)
    page = queries.listed(
        queries.tasks(query, scope.project),
        before=query_box.as_id(request.GET.get("before", "")),
        after=query_box.as_id(request.GET.get("after", "")),
    )
    question = asked_of(request)
    chosen = set(question.chosen.ids) if question else set()
    return {
        "query": query,
        "facets": facets(tallies, query),
        "total": total(tallies, query),
        "page": page,
        "entries": [Entry(row, due(row, now=now), row.pk in chosen) for row in page.rows],
        "asked": question,
        "offers": list(ACTIONS.values()),
        "nearest": [] if page.rows else nearest(query, scope),
    }


def asked_of(request: HtmxRequest) -> Asked | None:
    found = asked(request, ACTIONS)
    return Asked(found[0], found[1], len(found[1].ids)) if found and found[1].ids else None


def total(tallies: queries.Tallies, query: TaskQuery) -> int | None:
    """How many there are in all, where the counts beside the list tell it."""
    if query.one_state == "all":
        return tallies.total
    return sum(tallies.states.get(each, 0) for each in task_filters.STATES.get(query.one_state, ()))


def facets(tallies: queries.Tallies, query: TaskQuery) -> dict[str, list[Facet]]:
    everything = query.one_state == "all"
    states = [Facet("All", query.having("state", ""), tallies.total, everything, "n-tasks")]
    for state in ORDER:
        name = "needs-you" if state == TaskState.ESCALATED else state.value
        current = state in task_filters.STATES.get(query.one_state, ())
        badge = badges.task_badge(state)
        text = query.having("state", "" if current else f"state:{name}")
        count = tallies.states.get(state, 0)
        states.append(Facet(badge.label, text, count, current, badge.icon, badge.css))
    return {
        "states": states,
        "agents": values("agent", tallies.agents, query.one_agent, query),
        "types": values("type", tallies.types, query.one_type, query),
    }


def values(key: str, counted: list[tuple[str, int]], one: str, query: TaskQuery) -> list[Facet]:
    """The most frequent values of a key, and the one that is asked for."""
    known = dict(counted)
    names = list(known) + ([one] if one and one not in known else [])
    return [
        Facet(
            name,
            query.having(key, "" if name == one else query_box.term(key, name)),
            known.get(name, 0),
            name == one,
        )
        for name in names
    ]


def nearest(query: TaskQuery, scope: Scope) -> list[str]:
    """Names like the agent asked for, where no agent is called so."""
    name, project = query.one_agent, scope.project
    near: list[str] = agents.find_similar_names(name, project=project) if name and project else []
    return [] if name in near else near
