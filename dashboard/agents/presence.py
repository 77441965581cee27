"""How an agent stands, in a word and a sentence (pure): in touch, away, silent or new."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dashboard.formatting import rough_duration
from ledger.models import Agent


@dataclass(frozen=True, slots=True)
class Standing:
    """A word with its symbol, and what is known of the agent's last call."""

    word: str
    icon: str
    css: str
    seen: str


def standing(agent: Any, *, now: datetime, silent_after: timedelta) -> Standing:
    """`agent` has the extras of `dashboard.agents.queries`, which decides about silence."""
    seen = last_seen(agent, now=now)
    if agent.silent:
        return Standing("Silent", "ear", "st--silent", seen)
    if agent.last_seen_at is None:
        return Standing("New", "s-queued", "", seen)
    if now - agent.last_seen_at <= silent_after:
        return Standing("In touch", "s-done", "st--done", seen)
    return Standing("Away", "s-queued", "", seen)


def last_seen(agent: Agent, *, now: datetime) -> str:
    if agent.last_seen_at is None:
        return "never checked in"
    return f"checked in {rough_duration((now - agent.last_seen_at).total_seconds())} ago"


def silence(agent: Any, *, now: datetime) -> str:
    """Return for how long a silent agent has not checked in, and how much is waiting for it."""
    waiting = f"{agent.queued:,} waiting"
    if agent.last_seen_at is None:
        return f"has never checked in; {waiting}"
    length = rough_duration((now - agent.last_seen_at).total_seconds())
    return f"has not checked in for {length}; {waiting}"


@dataclass(frozen=True, slots=True)
class SilentAgents:
    """Agents that do not ask although something waits for them; the longest silent first."""

    agents: list[Agent]  # with `waiting`
    more: int
