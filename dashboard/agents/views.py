"""The fleet: who asks, who is silent, who may work, what waits for whom; and one agent."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse_lazy
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboard import live_updates, query_box, rendering, shared_queries
from dashboard.access import operators_only
from dashboard.actions import Action
from dashboard.activity import queries as activity_queries
from dashboard.activity.queries import Line
from dashboard.agents import queries
from dashboard.agents.actions import allowed_actions
from dashboard.agents.breaker import Circuit, circuit
from dashboard.agents.presence import Standing, silence, standing
from dashboard.agents.queries import NO_HOURS, Counts, Hours
from dashboard.navigation import read_scope, requested_project
from dashboard.rendering import HtmxRequest
from ledger.instruction_stats import Statistics
from ledger.models import Agent
from retries import breaker

CRUMB = {"label": "Agents", "url": reverse_lazy("dashboard:agents")}
RECENT = 12
NAME_LENGTH = 64
# the buttons above the list
SEGMENTS = (
    ("all", "All"),
    ("silent", "Silent"),
    ("tripped", "Tripped"),
    ("paused", "Paused"),
    ("waiting", "Waiting"),
)


@require_safe
@operators_only
def index(request: HtmxRequest) -> HttpResponse:
    """The agents, silent ones first, each with its breaker."""
    now = timezone.now()
    key = live_updates.read_live_key(now=now, project=requested_project(request))
    if rendering.is_unchanged(request, key):
        return rendering.unchanged()
    scope = read_scope(request)
    show, name = asked(request)
    counts = queries.counts(scope.project)
    page = queries.page(
        queries.agents(scope.project, now=now, show=show, name=name),
        before=query_box.as_id(request.GET.get("before", "")),
        after=query_box.as_id(request.GET.get("after", "")),
    )
    _, by_agent = shared_queries.read_figures(scope.project, now=now)
    hours = queries.rhythm(scope.project, now=now)
    context = {
        "live_key": key,
        "now": now,
        "title": title(counts),
        "heading": "Agents",
        "name": name,
        "show": show,
        "counts": counts,
        "segments": segments(counts, show),
        "page": page,
        "members": [member(row, by_agent, hours, now=now) for row in page.agents],
        "silent_after": settings.TENFOUR["SILENT_AFTER_SECONDS"],
        "rule": breaker.read_config(),
    }
    return rendering.respond_with(
        request,
        "agents/index.html",
        "agents/_agents.html",
        context,
        scope=scope,
        current="agents",
    )


@require_safe
@operators_only
def detail(request: HtmxRequest, agent_id: UUID) -> HttpResponse:
    """Show one agent: breaker, reminders needed, activity, tokens."""
    now = timezone.now()
    key = live_updates.read_live_key(now=now)
    if rendering.is_unchanged(request, key):
        return rendering.unchanged()
    scope = read_scope(request)
    agent = found(agent_id, now=now)
    _, by_agent = shared_queries.read_figures(scope.project, now=now)
    whole = by_agent.get(agent.pk) or Statistics(agent.name)
    shown = member(agent, by_agent, queries.rhythm(scope.project, now=now), now=now)
    context = {
        "live_key": key,
        "now": now,
        "title": f"{agent.name} · Agent",
        "heading": agent.name,
        "crumbs": [CRUMB],
        "agent": agent,
        "member": shown,
        "whole": whole,
        "most_given_up": whole if whole.failed else None,
        "defaults": settings.TENFOUR,
        "recent": recent(agent),
        "tokens": queries.tokens(agent),
        "asked": asked_about(request, shown.offers),
    }
    return rendering.respond_with(
        request,
        "agents/detail.html",
        "agents/_agent.html",
        context,
        scope=scope,
        current="agents",
    )


def asked_about(request: HttpRequest, offers: list[Action]) -> Action | None:
    """The offer whose question stands on the page, for who has no script."""
    return next((offer for offer in offers if offer.verb == request.GET.get("ask")), None)


def found(agent_id: UUID, *, now: datetime) -> Any:
    """The agent with its extras; raises Http404."""
    agent = queries.one(agent_id, now=now)
    if agent is None:
        raise Http404(f"There is no agent {agent_id}.")
    return agent


# ---- what the pages show


@dataclass(frozen=True, slots=True)
class Member:
    """An agent in the list, with its last day."""

    agent: Any
    standing: Standing
    silence: str
    figures: Statistics
    hours: Hours
    circuit: Circuit
    offers: list[Action]

    @property
    def waiting(self) -> int:
        """What a reset would withdraw."""
        waiting: int = self.agent.queued + self.agent.unheard
        return waiting


def member(
    agent: Any, by_agent: dict[UUID, Statistics], hours: dict[UUID, Hours], *, now: datetime
) -> Member:
    shown = circuit(agent, now=now, config=breaker.read_config())
    return Member(
        agent,
        standing(agent, now=now, silent_after=shared_queries.silent_after()),
        silence(agent, now=now) if agent.silent else "",
        by_agent.get(agent.pk) or Statistics(agent.name),
        hours.get(agent.pk, NO_HOURS),
        shown,
        allowed_actions(shown.state),
    )


@dataclass(frozen=True, slots=True)
class Segment:
    label: str
    show: str | None  # nothing is the same as all
    count: int
    current: bool


def segments(counts: Counts, show: str) -> list[Segment]:
    return [
        Segment(label, None if name == "all" else name, getattr(counts, name), name == show)
        for name, label in SEGMENTS
    ]


def asked(request: HttpRequest) -> tuple[str, str]:
    """The sort of agents and the part of a name that are asked for."""
    show = request.GET.get("show", "all")
    name = query_box.clean(request.GET.get("name", ""))[:NAME_LENGTH]
    return show if show in queries.SHOWN else "all", name


def title(counts: Counts) -> str:
    told = ((counts.open, "open"), (counts.silent, "silent"))
    wrong = ", ".join(f"{number:,} {word}" for number, word in told if number)
    return f"{wrong} · Agents" if wrong else "Agents"


def recent(agent: Agent) -> list[Line]:
    return activity_queries.latest(None, agent=agent, most=RECENT)
