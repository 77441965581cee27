"""Serve the list of agents and an agent's page."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import Http404, QueryDict
from django.urls import reverse_lazy

from dashboard import query_box
from dashboard.actions import Action
from dashboard.activity import queries as activity_queries
from dashboard.activity.queries import EventEntry
from dashboard.agents import queries
from dashboard.agents.queries import AgentCounts, AgentPage
from dashboard.agents.rows import AgentRow, build_rows
from dashboard.rendering import Crumb, PageContext, Visit, live_page
from dashboard.shared_queries import read_figures
from ledger.instruction_stats import Statistics
from ledger.models import Token
from retries import breaker
from retries.breaker import CircuitBreakerConfig

CRUMB = Crumb("Agents", reverse_lazy("dashboard:agents"))
EVENTS_SHOWN = 12
NAME_LENGTH = 64
# the buttons above the list
SEGMENTS = (
    ("all", "All"),
    ("silent", "Silent"),
    ("tripped", "Tripped"),
    ("paused", "Paused"),
    ("waiting", "Waiting"),
)


# ---- the list


@dataclass(frozen=True, slots=True)
class Segment:
    """A button above the list; `show` is None where all agents are shown."""

    label: str
    show: str | None
    count: int
    current: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentListPage(PageContext):
    name: str
    show: str
    counts: AgentCounts
    segments: list[Segment]
    page: AgentPage
    rows: list[AgentRow]
    silent_after: int
    config: CircuitBreakerConfig


@live_page("agents/index.html", "agents/_agents.html", current="agents")
def index(visit: Visit) -> AgentListPage:
    """List the agents, tripped and silent ones first, each with its breaker."""
    parameters, project = visit.request.GET, visit.scope.project
    show, name = read_filter(parameters)
    counts = queries.count_agents(project)
    page = queries.read_page(
        project,
        now=visit.now,
        show=show,
        name=name,
        before=query_box.as_id(parameters.get("before", "")),
        after=query_box.as_id(parameters.get("after", "")),
    )
    _, figures = read_figures(project, now=visit.now)
    hours = queries.read_hourly_activity(project, now=visit.now)
    return AgentListPage(
        title=describe_problems(counts),
        heading="Agents",
        name=name,
        show=show,
        counts=counts,
        segments=build_segments(counts, show),
        page=page,
        rows=build_rows(page.agents, figures, hours, now=visit.now),
        silent_after=settings.TENFOUR["SILENT_AFTER_SECONDS"],
        config=breaker.read_config(),
    )


def read_filter(parameters: QueryDict) -> tuple[str, str]:
    """Return the wanted segment and the text to find in names."""
    show = parameters.get("show", "all")
    name = query_box.clean(parameters.get("name", ""))[:NAME_LENGTH]
    return show if show in queries.FILTERS else "all", name


def build_segments(counts: AgentCounts, show: str) -> list[Segment]:
    return [
        Segment(label, None if name == "all" else name, getattr(counts, name), name == show)
        for name, label in SEGMENTS
    ]


def describe_problems(counts: AgentCounts) -> str:
    """Return the page's title, with the numbers of open breakers and silent agents."""
    problems = ((counts.open, "open"), (counts.silent, "silent"))
    text = ", ".join(f"{number:,} {problem}" for number, problem in problems if number)
    return f"{text} · Agents" if text else "Agents"


# ---- one agent


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDetailPage(PageContext):
    agent: Any
    row: AgentRow
    whole: Statistics
    most_given_up: Statistics | None
    defaults: Mapping[str, Any]
    events: list[EventEntry]
    tokens: list[Token]
    asked: Action | None  # the action whose question the page shows to a browser without scripts


@live_page("agents/detail.html", "agents/_agent.html", current="agents")
def detail(visit: Visit, agent_id: UUID) -> AgentDetailPage:
    """Show an agent's breaker, figures, activity and tokens."""
    agent = queries.find_agent(agent_id, now=visit.now)
    if agent is None:
        raise Http404(f"There is no agent {agent_id}.")
    _, figures = read_figures(visit.scope.project, now=visit.now)
    hours = queries.read_hourly_activity(visit.scope.project, now=visit.now)
    (row,) = build_rows([agent], figures, hours, now=visit.now)
    ask = visit.request.GET.get("ask")
    return AgentDetailPage(
        title=f"{agent.name} · Agent",
        heading=agent.name,
        crumbs=[CRUMB],
        agent=agent,
        row=row,
        whole=row.figures,
        most_given_up=row.figures if row.figures.failed else None,
        defaults=settings.TENFOUR,
        events=activity_queries.list_latest(None, agent=agent, most=EVENTS_SHOWN),
        tokens=queries.list_tokens(agent),
        asked=next((action for action in row.actions if action.verb == ask), None),
    )
