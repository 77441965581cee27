"""The list of instructions with the day's figures, and the page of one instruction."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import Http404, HttpResponse

from dashboard import steps
from dashboard.actions import find_asked, list_allowed
from dashboard.agents.presence import SilentAgents
from dashboard.agents.queries import list_silent_agents
from dashboard.date_range import DateRange, find_dates, open_dates
from dashboard.escalations import queries as escalation_queries
from dashboard.escalations.outcome import AnswerOutcome, describe_outcome
from dashboard.frame import rendering
from dashboard.frame.navigation import Scope, here_of
from dashboard.frame.rendering import HtmxRequest, PageContext, Steps, Visit, live_page
from dashboard.instructions import action_views, filters, latency_chart, queries
from dashboard.instructions.action_views import CRUMB, SendFields
from dashboard.instructions.filters import InstructionQuery
from dashboard.instructions.forecast import Clock, describe_next_step
from dashboard.instructions.latency_chart import Bar, PercentileLine
from dashboard.instructions.queries import ListedInstruction
from dashboard.instructions.status import describe_status
from dashboard.lists.facets import Facet, build_state_facets
from dashboard.lists.nearest_names import NameHints, suggest_names
from dashboard.lists.pagination import Page
from dashboard.lists.query_box import as_id
from dashboard.lists.shared_queries import list_history, read_figures
from dashboard.lists.sorting import Heading, build_headings, read_sort, read_sort_of
from dashboard.saved_views.strip import ViewStrip, read_views
from dashboard.sentences import instructions as sentences
from dashboard.sentences.instructions import Received, Step
from dashboard.wording.formatting import duration
from dashboard.wording.status_text import StatusText
from ledger.instruction_records.stats import Statistics
from ledger.models import Instruction, Project
from retries.models import Escalation
from retries.verbs.instructions import LIST, PAGE
from retries.verbs.verb import Verb

LABELS = {"agent": "To", "from": "From", "urgency": "Urgency", "sent": "Sent"}
STATES = {
    "all": "All",
    "waiting": "Waiting",
    "acknowledged": "Acknowledged",
    "failed": "Gave up",
    "cancelled": "Cancelled",
}
AGENTS_TO_CHOOSE = 3


# ---- one instruction


@dataclass(frozen=True, slots=True)
class InstructionDetails:
    """An instruction with its status, its text and its history."""

    row: Instruction
    status: StatusText
    received: Received
    steps: list[Step]
    next_step: Step | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionPage(PageContext):
    row: Instruction
    details: InstructionDetails
    asked: Verb | None
    escalation: Escalation | None
    outcome: AnswerOutcome | None


@live_page(
    "instructions/detail.html",
    "instructions/_instruction.html",
    current="instructions",
    row="instruction_id",
)
def detail(visit: Visit, instruction_id: UUID) -> InstructionPage:
    """Show one instruction."""
    listed = queries.find_instruction(instruction_id)
    if listed is None:
        raise Http404(f"There is no instruction {instruction_id}.")
    row = listed.row
    escalation = escalation_queries.find_by_instruction(row.id)
    is_closed = escalation is not None and not escalation.is_open
    return InstructionPage(
        title=f"{row.content[:60]} · Instruction",
        heading=row.content[:120],
        crumbs=(CRUMB,),
        list_steps=find_steps(visit, row.pk),
        row=row,
        details=describe_details(listed, queries.read_clock(), now=visit.now),
        asked=find_asked(visit.request, list_allowed(PAGE, row)),
        escalation=escalation,
        outcome=describe_outcome(escalation) if escalation and is_closed else None,
    )


def find_steps(visit: Visit, instruction_id: UUID) -> Steps | None:
    if not steps.are_shown(visit):
        return None
    params = visit.request.GET
    query = filters.parse(params.get("q", ""))
    rows = queries.filter_instructions(query, visit.scope.project)
    sort = read_sort_of(params.get("sort", ""), queries.COLUMNS, rows)
    beside = steps.find_beside(rows, instruction_id, sort, queries.COLUMNS)
    return steps.build_steps(visit, beside, place="instructions", page="instruction")


def describe_details(
    listed: ListedInstruction, clock: Clock, *, now: datetime
) -> InstructionDetails:
    row, forecast = listed.row, queries.forecast_of(listed, clock, now=now)
    return InstructionDetails(
        row=row,
        status=describe_status(row, ahead=listed.ahead, forecast=forecast, now=now),
        received=sentences.describe_received(row),
        steps=sentences.describe_steps(list_history(row.id), agent=row.agent.name),
        next_step=describe_next_step(row, ahead=listed.ahead, forecast=forecast, now=now),
    )


# ---- the list


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the list, with its details if it is expanded."""

    listed: ListedInstruction
    status: StatusText
    details: InstructionDetails | None
    toggle: str  # the query string that expands or collapses it


@dataclass(frozen=True, slots=True)
class AgentChoice:
    """An agent whose times the chart can show."""

    id: str
    name: str
    current: bool


@dataclass(frozen=True, slots=True)
class Figures:
    """The last day's urgencies and times to acknowledge."""

    whole: Statistics
    most_given_up: Statistics | None
    defaults: dict[str, Any]
    times: Statistics
    choices: list[AgentChoice]
    bars: list[Bar]
    reminded: int
    lines: list[PercentileLine]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionListPage(PageContext):
    silent: SilentAgents
    send: SendFields | None
    figures: Figures
    query: InstructionQuery
    views: ViewStrip
    clock: Clock
    clock_is_late: bool
    states: list[Facet]
    total: int | None
    dates: DateRange
    sort: str
    headings: dict[str, Heading]
    page: Page[ListedInstruction]
    entries: list[Entry]
    hints: NameHints
    bulk_verbs: tuple[Verb, ...] = LIST


@live_page("instructions/index.html", "instructions/_instructions.html", current="instructions")
def index(visit: Visit) -> InstructionListPage | HttpResponse:
    """Show the day's figures and the instructions that the query asks for."""
    request, scope, now = visit.request, visit.scope, visit.now
    query = filters.parse(request.GET.get("q", ""))
    if (dated := open_dates(request, query, "sent")) is not None:
        return dated
    counts = queries.count_by_state(query, scope.project)
    open_id = as_id(request.GET.get("open", ""))
    sort = read_sort(request.GET.get("sort", ""), queries.COLUMNS, counts.get(query.one_state))
    page = queries.list_instructions(
        query,
        scope.project,
        sort,
        before=as_id(request.GET.get("before", "")),
        after=as_id(request.GET.get("after", "")),
        open_id=open_id,
    )
    clock = queries.read_clock()
    here = here_of(request)
    here.pop("open", None)
    return InstructionListPage(
        title=f"{query.text} · Instructions" if query.text else describe_title(counts["waiting"]),
        heading="Instructions",
        silent=list_silent_agents(scope.project, now=now, with_instructions=True),
        send=send_fields(request, scope),
        figures=figures(request, scope.project, now=now),
        query=query,
        views=read_views(visit, "instructions", query.text, sort),
        clock=clock,
        clock_is_late=counts["waiting"] > 0 and clock.is_late(now),
        states=build_state_facets(STATES, counts, query.one_state, query),
        total=counts.get(query.one_state),
        dates=find_dates("sent", query.sent),
        sort=sort,
        headings=build_headings(queries.COLUMNS, LABELS, sort, queries.DEFAULT_SORT),
        page=page,
        entries=[
            entry(listed, clock, open_id=open_id, collapsed=here.urlencode(), now=now)
            for listed in page.rows
        ],
        hints=suggest_names(query, "instructions", scope.project, found=bool(page.rows)),
    )


def send_fields(request: HtmxRequest, scope: Scope) -> SendFields | None:
    """Return the form of the dialog, which a poll does not render."""
    if rendering.wants_part(request):
        return None
    form = action_views.SendForm(initial=action_views.initial_values(request, scope))
    return action_views.list_send_fields(form, scope)


def describe_title(waiting: int) -> str:
    return f"{waiting:,} waiting · Instructions" if waiting else "Instructions"


def entry(
    listed: ListedInstruction, clock: Clock, *, open_id: UUID | None, collapsed: str, now: datetime
) -> Entry:
    row, forecast = listed.row, queries.forecast_of(listed, clock, now=now)
    is_open = row.id == open_id
    return Entry(
        listed,
        describe_status(row, ahead=listed.ahead, forecast=forecast, now=now),
        describe_details(listed, clock, now=now) if is_open else None,
        f"?{collapsed}" if is_open else f"?{collapsed}{'&' if collapsed else ''}open={row.id}",
    )


# ---- the day's figures


def figures(request: HtmxRequest, project: Project | None, *, now: datetime) -> Figures:
    whole, by_agent = read_figures(project, now=now)
    busiest = sorted(by_agent.items(), key=lambda item: -item[1].sent)
    wanted = as_id(request.GET.get("of", ""))
    agent_id = wanted if wanted in by_agent else None
    shown = [agent for agent, _ in busiest[:AGENTS_TO_CHOOSE]]
    if agent_id and agent_id not in shown:
        shown[-1] = agent_id
    times = by_agent[agent_id] if agent_id else whole
    bars = latency_chart.latency_bars(queries.count_latencies(project, agent_id=agent_id, now=now))
    return Figures(
        whole=whole,
        most_given_up=most_given_up(by_agent.values()),
        defaults=settings.TENFOUR,
        times=times,
        choices=[AgentChoice(str(id), by_agent[id].name, id == agent_id) for id in shown],
        bars=bars,
        reminded=sum(bar.reminded for bar in bars),
        lines=latency_chart.percentile_lines(
            times.ack_p50_s, times.ack_p95_s, labels=percentile_labels(times)
        ),
    )


def most_given_up(by_agent: Iterable[Statistics]) -> Statistics | None:
    """Return the agent with the most instructions given up, if there is one."""
    worst = max(by_agent, key=lambda one: one.failed, default=None)
    return worst if worst and worst.failed else None


def percentile_labels(times: Statistics) -> tuple[str, str]:
    p50, p95 = duration(times.ack_p50_s or 0), duration(times.ack_p95_s or 0)
    return f"half within {p50}", f"95% within {p95}"
