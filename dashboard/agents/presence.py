"""Describe whether an agent checks in (pure): in touch, away, silent or new."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dashboard.formatting import rough_duration
from ledger.models import Agent


@dataclass(frozen=True, slots=True)
class Presence:
    """A label with its icon, and the time of the agent's last check-in as text."""

    label: str
    icon: str
    css: str
    last_seen: str


@dataclass(frozen=True, slots=True)
class SilentAgents:
    """Agents that do not check in while instructions wait for them; the longest silent first."""

    agents: list[Agent]  # with `waiting`
    more: int


def describe_presence(agent: Any, *, now: datetime, silent_after: timedelta) -> Presence:
    """Return the presence of an agent read by `dashboard.agents.queries`, which sets `silent`."""
    last_seen = describe_last_seen(agent, now=now)
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
