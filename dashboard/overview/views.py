"""The first page: what needs a person, today beside yesterday, the agents, the last events."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboard import feed, fleet, pulse, rendering, selectors
from dashboard.access import operators_only
from dashboard.fleet import NO_HOURS, Hours
from dashboard.outcomes import outcomes
from dashboard.rendering import HtmxRequest
from dashboard.selectors import Silent
from dashboard.shell import project_named, scope_of
from dashboard.standing import Standing, standing
from dashboard.tiles import tiles
from ledger.models import Agent, Project
from ledger.statistics import Statistics

FEED = 16
GLANCE = 8
LONG = timedelta(hours=1)


@require_safe
@operators_only
def index(request: HtmxRequest) -> HttpResponse:
    """Is anything waiting for me, and is today like yesterday?"""
    now = timezone.now()
    key = selectors.live_key(now=now, project=project_named(request))
    if rendering.is_unchanged(request, key):
        return rendering.unchanged()
    scope = scope_of(request)
    needs = pulse.oldest_open(scope.project)
    waiting = needs[0].open_count if needs else 0
    silent = selectors.silent_agents(scope.project, now=now)
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
        "feed": feed.latest(scope.project, most=FEED),
        **day(scope.project, silent, now=now),
    }
    return rendering.respond(
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
    return f"{waiting:,} need{'s' if waiting == 1 else ''} you · Overview"


def day(project: Project | None, silent: Silent, *, now: datetime) -> dict[str, Any]:
    """The figures, or nothing where nothing was ever sent."""
    whole, by_agent = selectors.figures(project, now=now)
    if not whole.sent and pulse.is_untouched(project):
        return {"untouched": True}
    days = pulse.pulse(project, now=now)
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
    project: Project | None, by_agent: dict[UUID, Statistics], silent: Silent, *, now: datetime
) -> list[Glance]:
    """The silent agents, then the busiest."""
    hours = fleet.rhythm(project, now=now)
    busiest = sorted(by_agent, key=lambda id: (-by_agent[id].sent, by_agent[id].name))
    chosen = dict.fromkeys([*(agent.pk for agent in silent.agents), *busiest])
    rows = fleet.with_extras(
        selectors.of_project(Agent.objects.filter(pk__in=list(chosen)[:GLANCE]), project), now=now
    )
    order = list(chosen)
    made = []
    for agent in sorted(rows, key=lambda row: order.index(row.pk)):
        stands = standing(agent, now=now, silent_after=selectors.silent_after())
        its = hours.get(agent.pk, NO_HOURS)
        made.append(Glance(agent, stands, by_agent.get(agent.pk), its))
    return made
