"""Describe the agents that get no work: tripped ones first, then silent ones (pure)."""

import math
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from dashboard.agents.presence import SilentAgents, TrippedAgents, describe_counts, waiting_counts
from dashboard.sentences.tasks import breaker_reason
from dashboard.wording.badges import breaker_badge
from dashboard.wording.formatting import counted
from ledger.states import BreakerState
from retries.breaker import CircuitBreakerConfig


@dataclass(frozen=True, slots=True)
class StoppedAgent:
    """An agent, the reason why it gets no work, and the work that waits for it."""

    agent: Any
    label: str
    icon: str
    css: str
    fact: str
    held: str
    last_seen_at: datetime | None = None  # set for a silent agent
    next: str = ""  # the condition for closing its breaker
    left: int | None = None  # seconds until its breaker is half open
    is_kept_open: bool = False


@dataclass(frozen=True, slots=True)
class StoppedAgents:
    agents: list[StoppedAgent]
    more_tripped: int
    more_silent: int
    held: int
    are_some: bool = False  # more may wait than was counted

    @property
    def held_text(self) -> str:
        if not self.held:
            return "nothing waits for them"
        if self.are_some:
            return f"{self.held:,}+ tasks and instructions wait"
        one, many = "task or instruction waits", "tasks and instructions wait"
        return counted(self.held, one, many)


def describe_stopped(
    tripped: TrippedAgents, silent: SilentAgents, *, now: datetime, config: CircuitBreakerConfig
) -> StoppedAgents:
    known = {agent.pk for agent in tripped.agents}
    quiet = [agent for agent in silent.shown if agent.pk not in known]
    lines = [describe_tripped(agent, now=now, config=config) for agent in tripped.shown]
    lines += [describe_silent(agent) for agent in quiet]
    return StoppedAgents(
        lines,
        tripped.more,
        silent.more,
        tripped.held + silent.waiting,
        tripped.are_some or silent.are_some,
    )


def describe_tripped(agent: Any, *, now: datetime, config: CircuitBreakerConfig) -> StoppedAgent:
    breaker, badge = agent.breaker, breaker_badge(agent.breaker.state)
    held = f"{describe_counts(agent.tasks_held)} held"
    if breaker.state == BreakerState.HALF_OPEN:
        fact = f"{breaker.successes} of {config.success_threshold} passed"
        runs = breaker.probe_attempt is not None and not agent.probe_ended
        next = "probe runs" if runs else "probe is next"
        return StoppedAgent(agent, badge.label, badge.icon, badge.css, fact, held, next=next)
    fact = breaker_reason({"reason": breaker.reason}) or "opened manually"
    line = StoppedAgent(agent, badge.label, badge.icon, badge.css, fact, held)
    if breaker.is_kept_open:
        return replace(line, is_kept_open=True)
    ahead = (breaker.opened_at + config.open_for - now).total_seconds()
    return replace(line, left=max(0, math.ceil(ahead)))


def describe_silent(agent: Any) -> StoppedAgent:
    seen = agent.last_seen_at
    fact = "never checked in" if seen is None else ""
    waiting = f"{describe_counts(*waiting_counts(agent))} waiting"
    return StoppedAgent(agent, "Silent", "ear", "st--silent", fact, waiting, seen)
