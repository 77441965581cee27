"""Serve the list of agents and an agent's page."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import Http404, QueryDict
from django.urls import reverse_lazy

from dashboard import steps
from dashboard.actions import find_asked
from dashboard.activity import queries as activity_queries
from dashboard.activity.queries import EventEntry
from dashboard.agents import filters, holding, queries
from dashboard.agents.filters import AgentQuery
from dashboard.agents.fleet import (
    DEFAULT_SORT,
    GROUPS,
    PAGE,
    RATED,
    SORT_COLUMNS,
    Fleet,
    build_sections,
    choose_agents,
    count_groups,
    needs,
    read_agent_sort,
    sort_agents,
)
from dashboard.agents.holding import PatternCounts, RunningAttempt
from dashboard.agents.proofs import ProofCounts, count_proofs
from dashboard.agents.queries import AgentToken
from dashboard.agents.rates import DAY, RANGES, Range, Rates, read_rates
from dashboard.agents.rows import AgentRow, build_row
from dashboard.charts.ack_targets import TargetRow
from dashboard.form_values import read_whole_number
from dashboard.frame.access import PAGES
from dashboard.frame.rendering import Crumb, PageContext, Steps, Visit, live_page
from dashboard.lists.facets import Facet, build_state_facets
from dashboard.lists.nearest_names import NameHints, suggest_agents
from dashboard.lists.shared_queries import hash_of, read_figures
from dashboard.lists.sorting import Heading, build_headings
from dashboard.question_lines import (
    OpenQuestions,
    SameCause,
    list_oldest_questions,
    read_causes,
)
from dashboard.saved_views.strip import ViewStrip, read_views
from ledger.authorization.permissions import may
from ledger.database.optional_cache import get_or_compute
from ledger.instruction_records.stats import Statistics
from ledger.models import Project
from retries import breaker
from retries.breaker import CircuitBreakerConfig
from retries.verbs.verb import Verb

CRUMB = Crumb("Agents", reverse_lazy("dashboard:agents"))
EVENTS_SHOWN = 12
QUESTIONS_SHOWN = 6
ORDER_S = 30  # how long "previous" and "next" keep the order of the list
LONG = timedelta(hours=1)
LABELS = {"all": "All", **{group.key: group.label for group in GROUPS}}


# ---- the list


@dataclass(frozen=True, slots=True)
class RangeChoice:
    """A range of the rates; its value is None for the default."""

    label: str
    value: str | None
    current: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentListPage(PageContext):
    query: AgentQuery
    views: ViewStrip
    sort: str
    range: Range
    states: list[Facet]
    ranges: list[RangeChoice]
    headings: dict[str, Heading]
    fleet: Fleet
    silent_after: int
    config: CircuitBreakerConfig
    hints: NameHints


@live_page("agents/index.html", "agents/_agents.html", current="agents")
def index(visit: Visit) -> AgentListPage:
    """List the agents, blocked first."""
    parameters, project = visit.request.GET, visit.scope.project
    query = filters.parse(parameters.get("q", ""))
    range = RANGES.get(parameters.get("range", ""), DAY)
    sort = read_agent_sort(parameters.get("sort", ""))
    fleet = read_fleet(project, parameters, query=query, sort=sort, range=range, now=visit.now)
    return AgentListPage(
        title=describe_problems(fleet.counts),
        heading="Agents",
        query=query,
        views=read_views(visit, "agents", query.text, parameters.get("sort", "")),
        sort=sort,
        range=range,
        states=build_state_facets(LABELS, fleet.matching, query.one_state, query),
        ranges=[
            RangeChoice(each.label, None if each is DAY else each.key, each is range)
            for each in RANGES.values()
        ],
        headings=build_headings(SORT_COLUMNS, COLUMN_LABELS, sort, DEFAULT_SORT),
        fleet=fleet,
        silent_after=settings.TENFOUR["SILENT_AFTER_SECONDS"],
        config=breaker.read_config(),
        hints=suggest_agents(query, project, found=bool(fleet.found)),
    )


COLUMN_LABELS = {
    "name": "Agent",
    "done": "Done",
    "errors": "Errors",
    "first": "1st try",
    "slots": "Slots",
    "waiting": "Waiting",
    "seen": "Seen",
}


def read_fleet(
    project: Project | None,
    parameters: QueryDict,
    *,
    query: AgentQuery,
    sort: str,
    range: Range,
    now: datetime,
) -> Fleet:
    agents = queries.list_agents(project, now)
    rates = read_rates(project, range, now=now)
    chosen = choose_agents(agents, query, now=now)
    sort_agents(chosen, rates, queries.read_sort_runs(chosen, sort), sort=sort, range=range)
    pages = max(1, -(-len(chosen) // PAGE))
    page = max(1, min(read_whole_number(parameters.get("page", "")) or 1, pages))
    shown = chosen[(page - 1) * PAGE : page * PAGE]
    runs = queries.read_runs([agent for agent, _ in shown]) if shown else {}
    sections = build_sections(chosen, shown, runs=runs, rates=rates, range=range, now=now)
    matching = choose_agents(agents, query.stateless(), now=now)
    return Fleet(
        sections,
        count_groups(agents),
        count_groups([agent for agent, _ in matching]),
        len(chosen),
        page,
        pages,
    )


def describe_problems(counts: Mapping[str, int]) -> str:
    """Return the page's title, with the numbers of open breakers and silent agents."""
    problems = ((counts["tripped"], "open"), (counts["silent"], "silent"))
    text = ", ".join(f"{number:,} {problem}" for number, problem in problems if number)
    return f"{text} · Agents" if text else "Agents"


# ---- one agent


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDetailPage(PageContext):
    agent: Any
    row: AgentRow
    rates: Rates
    utilization: int
    running: list[RunningAttempt]
    questions: OpenQuestions
    same_cause: SameCause | None  # of several escalations that one answer can settle
    long_ago: datetime  # escalations opened earlier are marked
    patterns: PatternCounts
    target: TargetRow | None
    proofs: ProofCounts
    whole: Statistics
    most_given_up: Statistics | None
    defaults: Mapping[str, Any]
    events: list[EventEntry]
    tokens: list[AgentToken] | None  # None: the person may not see tokens
    asked: Verb | None  # the action whose question the page shows to a browser without scripts


@live_page("agents/detail.html", "agents/_agent.html", current="agents")
def detail(visit: Visit, agent_id: UUID) -> AgentDetailPage:
    """Show an agent's breaker, figures, activity and tokens."""
    agent = queries.find_agent(agent_id, now=visit.now)
    if agent is None:
        raise Http404(f"There is no agent {agent_id}.")
    _, figures = read_figures(visit.scope.project, now=visit.now)
    row = build_row(agent, figures, now=visit.now)
    rates = read_rates(None, DAY, now=visit.now, agent_id=agent_id).get(agent_id) or Rates(DAY)
    causes = read_causes(None, now=visit.now, agent_id=agent_id)
    may_see_tokens = may(visit.request.user, PAGES["tokens"].permission, agent.project_id)
    return AgentDetailPage(
        title=f"{agent.name} · Agent",
        heading=agent.name,
        crumbs=[CRUMB],
        list_steps=find_steps(visit, agent_id),
        agent=agent,
        row=row,
        rates=rates,
        utilization=measure_utilization(rates, agent.concurrency),
        running=holding.list_running(agent) if agent.tasks_running else [],
        questions=list_oldest_questions(
            None, now=visit.now, most=QUESTIONS_SHOWN, agent_id=agent_id
        ),
        same_cause=next((each for each in causes.same if each.answerable > 1), None),
        long_ago=visit.now - LONG,
        patterns=holding.count_patterns(agent, causes.counts, now=visit.now),
        target=queries.find_target(agent),
        proofs=count_proofs(agent),
        whole=row.figures,
        most_given_up=row.figures if row.figures.failed else None,
        defaults=settings.TENFOUR,
        events=activity_queries.list_latest(None, agent=agent, most=EVENTS_SHOWN),
        tokens=queries.list_tokens(agent) if may_see_tokens else None,
        asked=find_asked(visit.request, row.actions),
    )


def find_steps(visit: Visit, agent_id: UUID) -> Steps | None:
    if not steps.are_shown(visit):
        return None
    params, project = visit.request.GET, visit.scope.project
    query, sort = filters.parse(params.get("q", "")), read_agent_sort(params.get("sort", ""))
    range = RANGES.get(params.get("range", ""), DAY)

    def list_ids() -> list[UUID]:
        chosen = choose_agents(queries.list_agents(project, visit.now), query, now=visit.now)
        rates = read_rates(project, range, now=visit.now) if needs(RATED, sort) else {}
        sort_agents(chosen, rates, queries.read_sort_runs(chosen, sort), sort=sort, range=range)
        return [agent.pk for agent, _ in chosen]

    # While a person goes from agent to agent, the order must not change.
    key = hash_of((project and project.pk, query, sort, range.key))
    beside = steps.place_in(get_or_compute(f"agents:{key}", list_ids, seconds=ORDER_S), agent_id)
    return steps.build_steps(visit, beside, place="agents", page="agent", with_shift=True)


def measure_utilization(rates: Rates, concurrency: int | None) -> int:
    """Return the share of the time that attempts took, in percent of what the slots allow."""
    most = rates.range.length.total_seconds() * (concurrency or 1)
    return min(100, round(100 * rates.now.busy_s / most))
