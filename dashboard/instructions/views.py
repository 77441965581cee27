"""The list of instructions with its figures, and one instruction."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import Http404, HttpResponse
from django.urls import reverse_lazy
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboard import live_updates, query_box, rendering, shared_queries
from dashboard.access import operators_only
from dashboard.actions import Action
from dashboard.agents.queries import list_silent_agents
from dashboard.escalations import outcome as escalation_outcome
from dashboard.escalations import queries as escalation_queries
from dashboard.formatting import duration
from dashboard.instructions import action_views, filters, latency_chart, queries
from dashboard.instructions.actions import ACTIONS, allowed_actions
from dashboard.instructions.filters import InstructionQuery
from dashboard.instructions.forecast import Clock, describe_next_step
from dashboard.instructions.queries import Line
from dashboard.instructions.status import answer
from dashboard.navigation import Scope, here_of, project_named, scope_of
from dashboard.rendering import HtmxRequest
from dashboard.sentences import instructions as sentences_instructions
from dashboard.status_text import StatusText
from ledger import agents
from ledger.instruction_stats import Statistics
from ledger.models import Instruction, Project

# the buttons above the list: name of the state in a query, label
SEGMENTS = (
    ("", "all", "All"),
    ("waiting", "waiting", "Waiting"),
    ("acknowledged", "acknowledged", "Acknowledged"),
    ("failed", "failed", "Gave up"),
    ("cancelled", "cancelled", "Cancelled"),
)
AGENTS_TO_CHOOSE = 3
CRUMB = {"label": "Instructions", "url": reverse_lazy("dashboard:instructions")}


@require_safe
@operators_only
def index(request: HtmxRequest) -> HttpResponse:
    """The ladder, the times, and the list, all of the last state the database knows."""
    now = timezone.now()
    key = live_updates.read_live_key(now=now, project=project_named(request))
    if rendering.is_unchanged(request, key):
        return rendering.unchanged()
    scope = scope_of(request)
    query = filters.parse(request.GET.get("q", ""))
    context = {
        "live_key": key,
        "now": now,
        "heading": "Instructions",
        "silent": list_silent_agents(scope.project, now=now),
        **sending(request, scope),
        **figures(request, scope.project, now=now),
        **listing(request, query, scope, now=now),
    }
    return rendering.respond(
        request,
        "instructions/index.html",
        "instructions/_instructions.html",
        context,
        scope=scope,
        current="instructions",
    )


@require_safe
@operators_only
def detail(request: HtmxRequest, instruction_id: UUID) -> HttpResponse:
    """Everything about one instruction."""
    now = timezone.now()
    key = live_updates.read_live_key(now=now, row=instruction_id)
    if rendering.is_unchanged(request, key):
        return rendering.unchanged()
    line = queries.one(instruction_id)
    if line is None:
        raise Http404(f"There is no instruction {instruction_id}.")
    clock = queries.clock()
    context = {
        "live_key": key,
        "now": now,
        "title": f"{line.row.content[:60]} · Instruction",
        "heading": line.row.content[:120],
        "crumbs": [CRUMB],
        "asked": asked(request, line.row),
        **question(line.row),
        **opened(line, clock, now=now),
    }
    return rendering.respond(
        request,
        "instructions/detail.html",
        "instructions/_instruction.html",
        context,
        scope=scope_of(request),
        current="instructions",
    )


def sending(request: HtmxRequest, scope: Scope) -> dict[str, Any]:
    """The form in the dialog; a poll has no use for it."""
    if rendering.wants_part(request):
        return {}
    form = action_views.SendForm(initial=action_views.started(request, scope))
    return action_views.form_context(form, scope)


def asked(request: HtmxRequest, row: Instruction) -> Action | None:
    """The question that a person without scripts answers before a verb is done."""
    offer = ACTIONS.get(request.GET.get("ask", ""))
    return offer if offer in allowed_actions(row) else None


def question(row: Instruction) -> dict[str, Any]:
    """The escalation that it ended in, and its answer."""
    found = escalation_queries.about(row.id)
    verdict = escalation_outcome.verdict(found) if found and not found.is_open else None
    return {"escalation": found, "verdict": verdict}


# ---- the figures


@dataclass(frozen=True, slots=True)
class Chosen:
    """An agent that the times can be narrowed to."""

    id: str
    name: str
    current: bool


def figures(request: HtmxRequest, project: Project | None, *, now: datetime) -> dict[str, Any]:
    """The ladder and the times of the last day."""
    whole, by_agent = shared_queries.read_figures(project, now=now)
    busiest = sorted(by_agent.items(), key=lambda item: -item[1].sent)
    asked = query_box.as_id(request.GET.get("of", ""))
    agent_id = asked if asked in by_agent else None
    shown = [agent for agent, _ in busiest[:AGENTS_TO_CHOOSE]]
    if agent_id and agent_id not in shown:
        shown[-1] = agent_id
    of = by_agent[agent_id] if agent_id else whole
    bars = latency_chart.latency_bars(queries.latencies(project, agent_id=agent_id, now=now))
    return {
        "whole": whole,
        "most_given_up": most_given_up(by_agent.values()),
        "defaults": settings.TENFOUR,
        "times": of,
        "choices": [Chosen(str(id), by_agent[id].name, id == agent_id) for id in shown],
        "bars": bars,
        "reminded": sum(bar.reminded for bar in bars),
        "marks": latency_chart.latency_marks(of.ack_p50_s, of.ack_p95_s, words=within(of)),
    }


def most_given_up(by_agent: Any) -> Statistics | None:
    """The agent that was given up on most, if any was."""
    worst = max(by_agent, key=lambda one: one.failed, default=None)
    return worst if worst and worst.failed else None


def within(of: Statistics) -> tuple[str, str]:
    p50, p95 = duration(of.ack_p50_s or 0), duration(of.ack_p95_s or 0)
    return f"half within {p50}", f"95% within {p95}"


# ---- the list


@dataclass(frozen=True, slots=True)
class Segment:
    label: str
    query: str
    count: int
    current: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """A line with what its last column says, and its trail where it is opened."""

    line: Line
    answer: StatusText
    opened: dict[str, Any] | None
    toggle: str  # the query that opens it, or closes it


def listing(
    request: HtmxRequest, query: InstructionQuery, scope: Scope, *, now: datetime
) -> dict[str, Any]:
    """The rows that the query asks for, with the counts of the others."""
    counts = queries.counts(query, scope.project)
    open_id = query_box.as_id(request.GET.get("open", ""))
    page = queries.page(
        queries.instructions(query, scope.project),
        before=query_box.as_id(request.GET.get("before", "")),
        after=query_box.as_id(request.GET.get("after", "")),
        open_id=open_id,
    )
    clock = queries.clock()
    closed = here_of(request)
    closed.pop("open", None)
    return {
        "title": title(counts["waiting"]) if query.text == "" else f"{query.text} · Instructions",
        "query": query,
        "clock": clock,
        "clock_is_late": counts["waiting"] > 0 and clock.is_late(now),
        "segments": [
            Segment(label, query.with_state(state), counts[name], query.segment == name)
            for state, name, label in SEGMENTS
        ],
        "total": counts.get(query.segment),
        "page": page,
        "entries": [
            entry(line, clock, open_id=open_id, closed=closed.urlencode(), now=now)
            for line in page.rows
        ],
        "is_first": page.newer is None,
        "nearest": [] if page.rows else nearest(query, scope),
    }


def title(waiting: int) -> str:
    if not waiting:
        return "Instructions"
    return f"{waiting:,} wait{'s' if waiting == 1 else ''} for an answer · Instructions"


def entry(line: Line, clock: Clock, *, open_id: UUID | None, closed: str, now: datetime) -> Entry:
    next_check = queries.what_is_next(line, clock, now=now)
    is_open = line.row.id == open_id
    return Entry(
        line,
        answer(line.row, ahead=line.before, forecast=next_check, now=now),
        opened(line, clock, now=now) if is_open else None,
        f"?{closed}" if is_open else f"?{closed}{'&' if closed else ''}open={line.row.id}",
    )


def opened(line: Line, clock: Clock, *, now: datetime) -> dict[str, Any]:
    """One instruction with its trail."""
    row, next_check = line.row, queries.what_is_next(line, clock, now=now)
    return {
        "row": row,
        "answer": answer(row, ahead=line.before, forecast=next_check, now=now),
        "received": sentences_instructions.received(row),
        "steps": sentences_instructions.told(
            shared_queries.list_history(row.id), agent=row.agent.name
        ),
        "next_step": describe_next_step(row, before=line.before, forecast=next_check, now=now),
    }


def nearest(query: InstructionQuery, scope: Scope) -> list[str]:
    """Names like the agent asked for, where no agent is called so."""
    name, project = query.one_agent, scope.project
    near = agents.find_similar_names(name, project=project) if name and project else []
    return [] if name in near else near
