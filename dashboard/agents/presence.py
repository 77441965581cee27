"""Describe an agent's presence (pure): its breaker if it is not closed, else its check-ins."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dashboard.badges import Badge, breaker_badge
from dashboard.formatting import rough_duration
from ledger.models import Agent
from ledger.states import BreakerState


@dataclass(frozen=True, slots=True)
class Presence:
    """A label with its icon, and the time of the agent's last check-in as text."""

    label: str
    icon: str
    css: str
    last_seen: str


@dataclass(frozen=True, slots=True)
class TrippedAgents:
    """Agents whose breaker is open, then half open; the last tripped first."""

    agents: list[Agent]  # with `tasks_held` and `probe_ended`
    more: int
    held: int  # tasks of all of them, also of those that are not listed


@dataclass(frozen=True, slots=True)
class SilentAgents:
    """Agents that do not check in while instructions wait for them; the longest silent first."""

    agents: list[Agent]  # with `waiting`
    more: int
    waiting: int  # instructions for all of them, also for those that are not listed


def describe_presence(agent: Any, *, now: datetime, silent_after: timedelta) -> Presence:
    """Return the presence of an agent read by `dashboard.agents.queries`, which sets `silent`.

    A breaker that is not closed comes first: an agent that checks in still gets no tasks.
    """
    last_seen = describe_last_seen(agent, now=now)
    if badge := trip_badge(agent):
        return Presence(badge.label, badge.icon, badge.css, last_seen)
    if agent.silent:
        return Presence("Silent", "ear", "st--silent", last_seen)
    if agent.last_seen_at is None:
        return Presence("New", "s-queued", "", last_seen)
    if now - agent.last_seen_at <= silent_after:
        return Presence("In touch", "s-done", "st--done", last_seen)
    return Presence("Away", "s-queued", "", last_seen)


def describe_last_seen(agent: Agent, *, now: datetime) -> str:
    if agent.last_seen_at is None:
        return "never checked in"
    return f"checked in {rough_duration((now - agent.last_seen_at).total_seconds())} ago"


def describe_silence(agent: Any, *, now: datetime) -> str:
    """Return how long a silent agent has not checked in and how many instructions wait for it."""
    waiting = f"{agent.queued:,} waiting"
    if agent.last_seen_at is None:
        return f"has never checked in; {waiting}"
    length = rough_duration((now - agent.last_seen_at).total_seconds())
    return f"has not checked in for {length}; {waiting}"


def breaker_state(agent: Any) -> BreakerState:
    """Return the state of an agent's breaker, which is created by the first failure."""
    breaker = getattr(agent, "breaker", None)
    return BreakerState(breaker.state) if breaker else BreakerState.CLOSED


def trip_badge(agent: Any) -> Badge | None:
    """Return the badge of an agent whose breaker is not closed, or None."""
    state = breaker_state(agent)
    if state == BreakerState.CLOSED:
        return None
    badge = breaker_badge(state)
    return Badge(f"Breaker {badge.label.lower()}", badge.icon, badge.css)
