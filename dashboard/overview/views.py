"""The first page: what needs a person, today beside yesterday, the agents, the last events."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboard import live_updates, rendering, shared_queries
from dashboard.access import operators_only
from dashboard.activity import queries as activity_queries
from dashboard.agents import queries as agent_queries
from dashboard.agents.presence import SilentAgents, Standing, standing
from dashboard.agents.queries import NO_HOURS, Hours, list_silent_agents
from dashboard.navigation import read_scope, requested_project
from dashboard.overview import queries
from dashboard.overview.figures import tiles
from dashboard.overview.outcome_chart import outcomes
from dashboard.rendering import HtmxRequest
from ledger.instruction_stats import Statistics
from ledger.models import Agent, Project

FEED = 16
GLANCE = 8
LONG = timedelta(hours=1)


@require_safe
@operators_only
def index(request: HtmxRequest) -> HttpResponse:
    """Is anything waiting for me, and is today like yesterday?"""
    now = timezone.now()
    key = live_updates.read_live_key(now=now, project=requested_project(request))
    if rendering.is_unchanged(request, key):
        return rendering.unchanged()
    scope = read_scope(request)
    needs = queries.oldest_open(scope.project)
    waiting = needs[0].open_count if needs else 0
    silent = list_silent_agents(scope.project, now=now)
    context = {
        "live_key": key,
        "now": now,
        "title": title(waiting),
        "heading": "Overview",
        "waiting": waiting,
        "needs": needs,
        "tasks_need_you": any(need.task_id for need in needs),
        "long_ago": now - LONG,
        "silent": silent,
        "feed": activity_queries.latest(scope.project, most=FEED),
        **day(scope.project, silent, now=now),
    }
    return rendering.respond_with(
        request,
        "overview/index.html",
        "overview/_overview.html",
        context,
        scope=scope,
        current="home",
    )


def title(waiting: int) -> str:
    if not waiting:
        return "Overview"
    return f"{waiting:,} need{'s' if waiting == 1 else ''} an answer · Overview"


def day(project: Project | None, silent: SilentAgents, *, now: datetime) -> dict[str, Any]:
    """The figures, or nothing where nothing was ever sent."""
    whole, by_agent = shared_queries.read_figures(project, now=now)
    if not whole.sent and queries.is_untouched(project):
        return {"untouched": True}
    days = queries.pulse(project, now=now)
    return {
        "tiles": tiles(whole, days.before, days.bins),
        "outcomes": outcomes(days.bins),
        "agents": glance(project, by_agent, silent, now=now),
    }


@dataclass(frozen=True, slots=True)
class Glance:
    """An agent in the table: how it stands, and its last day."""

    agent: Any
    standing: Standing
    figures: Statistics | None
    hours: Hours


def glance(
    project: Project | None,
    by_agent: dict[UUID, Statistics],
    silent: SilentAgents,
    *,
    now: datetime,
) -> list[Glance]:
    """The silent agents, then the busiest."""
    hours = agent_queries.rhythm(project, now=now)
    busiest = sorted(by_agent, key=lambda id: (-by_agent[id].sent, by_agent[id].name))
    chosen = dict.fromkeys([*(agent.pk for agent in silent.agents), *busiest])
    rows = agent_queries.with_extras(
        shared_queries.of_project(Agent.objects.filter(pk__in=list(chosen)[:GLANCE]), project),
        now=now,
    )
    order = list(chosen)
    made = []
    for agent in sorted(rows, key=lambda row: order.index(row.pk)):
        stands = standing(agent, now=now, silent_after=shared_queries.silent_after())
        its = hours.get(agent.pk, NO_HOURS)
        made.append(Glance(agent, stands, by_agent.get(agent.pk), its))
    return made
