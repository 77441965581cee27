"""Describe an agent's presence (pure): its breaker if it is not closed, else its check-ins."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dashboard.wording.badges import Badge, breaker_badge
from ledger.states import BreakerState

COUNTED = 1000  # counts of one agent stop here
SHOWN = 8  # agents that get no work, of each kind


@dataclass(frozen=True, slots=True)
class Presence:
    label: str
    icon: str
    css: str


@dataclass(frozen=True, slots=True)
class TrippedAgents:
    """Agents whose breaker is open, then half open; the last tripped first."""

    agents: list[Any]  # with `tasks_held` and `probe_ended`

    @property
    def shown(self) -> list[Any]:
        return self.agents[:SHOWN]

    @property
    def more(self) -> int:
        return len(self.agents[SHOWN:])

    @property
    def held(self) -> int:
        return sum(agent.tasks_held for agent in self.agents)

    @property
    def are_some(self) -> bool:
        """Return whether more tasks may be held than were counted."""
        return any(agent.tasks_held >= COUNTED for agent in self.agents)


@dataclass(frozen=True, slots=True)
class SilentAgents:
    """Agents that do not check in while work waits for them; the longest silent first."""

    agents: list[Any]  # with `instructions`, `tasks_queued` and `tasks_retry`

    @property
    def shown(self) -> list[Any]:
        return self.agents[:SHOWN]

    @property
    def more(self) -> int:
        return len(self.agents[SHOWN:])

    @property
    def waiting(self) -> int:
        return sum(sum(waiting_counts(agent)) for agent in self.agents)

    @property
    def instructions(self) -> str:
        """The number of instructions that wait for them."""
        return describe_counts(*(agent.instructions for agent in self.agents))

    @property
    def are_some(self) -> bool:
        """Return whether more may wait than was counted."""
        return any(max(waiting_counts(agent)) >= COUNTED for agent in self.agents)


def waiting_counts(agent: Any) -> tuple[int, ...]:
    return agent.instructions, agent.tasks_queued, agent.tasks_retry


def describe_counts(count: int, *more: int) -> str:
    """Return the sum of counts, with a + if one of them stopped before its end."""
    return f"{count + sum(more):,}{'+' if max(count, *more, 0) >= COUNTED else ''}"


def describe_presence(agent: Any, *, now: datetime, silent_after: timedelta) -> Presence:
    """Return the presence of an agent read by `dashboard.agents.queries`, which sets `silent`.

    A breaker that is not closed comes first: an agent that checks in still gets no tasks.
    """
    if badge := trip_badge(agent):
        return Presence(badge.label, badge.icon, badge.css)
    if agent.silent:
        return Presence("Silent", "ear", "st--silent")
    if agent.last_seen_at is None:
        return Presence("New", "s-queued", "")
    if now - agent.last_seen_at <= silent_after:
        return Presence("In touch", "s-done", "st--done")
    return Presence("Away", "s-queued", "")


def breaker_state(agent: Any) -> BreakerState:
    """Return the state of an agent's breaker, which is created by the first failure."""
    breaker = getattr(agent, "breaker", None)
    return BreakerState(breaker.state) if breaker else BreakerState.CLOSED


def trip_badge(agent: Any) -> Badge | None:
    state = breaker_state(agent)
    if state == BreakerState.CLOSED:
        return None
    badge = breaker_badge(state)
    return Badge(f"Breaker {badge.label.lower()}", badge.icon, badge.css)
