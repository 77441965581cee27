"""Serve Overview: open escalations, the last day's figures, agents and latest events."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from dashboard.activity import queries as activity_queries
from dashboard.activity.queries import EventEntry
from dashboard.agents.presence import SilentAgents, TrippedAgents
from dashboard.agents.queries import (
    fetch_agents,
    list_silent_agents,
    list_tripped_agents,
    read_hourly_activity,
)
from dashboard.agents.rows import AgentRow, build_rows
from dashboard.overview import queries
from dashboard.overview.figures import Tile, build_tiles
from dashboard.overview.first_step import FirstStep, read_first_step
from dashboard.overview.outcome_chart import OutcomeChart, draw_outcomes
from dashboard.rendering import PageContext, Visit, live_page
from dashboard.shared_queries import read_figures
from ledger.instruction_stats import Statistics
from ledger.models import Agent, Project

EVENTS_SHOWN = 16
AGENTS_SHOWN = 8
LONG = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class LastDay:
    """The figures of the last 24 hours."""

    tiles: list[Tile]
    outcomes: OutcomeChart
    agents: list[AgentRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewPage(PageContext):
    waiting: int
    needs: list[Any]
    tasks_need_you: bool
    long_ago: datetime  # escalations opened earlier are marked
    tripped: TrippedAgents
    silent: SilentAgents
    events: list[EventEntry]
    last_day: LastDay | None  # None before the first instruction
    first_step: FirstStep | None  # only then


@live_page("overview/index.html", "overview/_overview.html", current="home")
def index(visit: Visit) -> OverviewPage:
    """Show what needs an answer and how the last day went."""
    project = visit.scope.project
    needs = queries.list_oldest_escalations(project)
    waiting = needs[0].open_count if needs else 0
    tripped = list_tripped_agents(project)
    silent = list_silent_agents(project, now=visit.now)
    last_day = read_last_day(project, [*tripped.agents, *silent.agents], now=visit.now)
    return OverviewPage(
        title=page_title(waiting),
        heading="Overview",
        waiting=waiting,
        needs=needs,
        tasks_need_you=any(need.task_id for need in needs),
        long_ago=visit.now - LONG,
        tripped=tripped,
        silent=silent,
        events=activity_queries.list_latest(project, most=EVENTS_SHOWN),
        last_day=last_day,
        first_step=None if last_day or not visit.scope.projects else read_first_step(visit),
    )


def page_title(waiting: int) -> str:
    if not waiting:
        return "Overview"
    return f"{waiting:,} need{'s' if waiting == 1 else ''} an answer · Overview"


def read_last_day(
    project: Project | None, troubled: list[Agent], *, now: datetime
) -> LastDay | None:
    whole, figures = read_figures(project, now=now)
    if whole.sent <= queries.FEW and not queries.has_instructions(project):
        return None
    trend = queries.read_trend(project, now=now)
    return LastDay(
        build_tiles(whole, trend.before, trend.half_hours),
        draw_outcomes(trend.half_hours),
        list_agents(project, figures, troubled, now=now),
    )


def list_agents(
    project: Project | None,
    figures: Mapping[UUID, Statistics],
    troubled: list[Agent],
    *,
    now: datetime,
) -> list[AgentRow]:
    """Return the tripped and silent agents and then those with the most instructions."""
    hours = read_hourly_activity(project, now=now)
    busiest = sorted(figures, key=lambda id: (-figures[id].sent, figures[id].name))
    ids = list(dict.fromkeys([*(agent.pk for agent in troubled), *busiest]))[:AGENTS_SHOWN]
    agents = fetch_agents(tuple(ids), project, now)
    ordered = sorted(agents, key=lambda agent: ids.index(agent.pk))
    return build_rows(ordered, figures, hours, now=now)
