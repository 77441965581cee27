"""Describe the agents that get no work: tripped ones first, then silent ones (pure)."""

import math
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from dashboard.agents.presence import SilentAgents, TrippedAgents
from dashboard.badges import breaker_badge
from dashboard.formatting import counted, rough_duration
from dashboard.sentences.tasks import breaker_reason
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
    next: str = ""  # the condition for closing its breaker
    left: int | None = None  # seconds until its breaker is half open
    is_kept_open: bool = False


@dataclass(frozen=True, slots=True)
class StoppedAgents:
    agents: list[StoppedAgent]
    more_tripped: int
    more_silent: int
    held: int


def describe_stopped(
    tripped: TrippedAgents, silent: SilentAgents, *, now: datetime, config: CircuitBreakerConfig
) -> StoppedAgents:
    known = {agent.pk for agent in tripped.agents}
    quiet = [agent for agent in silent.agents if agent.pk not in known]
    order = sorted(tripped.agents, key=lambda agent: agent.breaker.state != BreakerState.OPEN)
    lines = [describe_tripped(agent, now=now, config=config) for agent in order]
    lines += [describe_silent(agent, now=now) for agent in quiet]
    return StoppedAgents(lines, tripped.more, silent.more, tripped.held + silent.waiting)


def describe_tripped(agent: Any, *, now: datetime, config: CircuitBreakerConfig) -> StoppedAgent:
    breaker, badge = agent.breaker, breaker_badge(agent.breaker.state)
    held = f"{agent.tasks_held:,} held"
    if breaker.state == BreakerState.HALF_OPEN:
        fact = f"{breaker.successes} of {counted(config.success_threshold, 'probe')} passed"
        runs = breaker.probe_attempt is not None and not agent.probe_ended
        next = "probe runs" if runs else "probe is next"
        return StoppedAgent(agent, badge.label, badge.icon, badge.css, fact, held, next)
    fact = breaker_reason({"reason": breaker.reason}) or "opened manually"
    line = StoppedAgent(agent, badge.label, badge.icon, badge.css, fact, held)
    if breaker.is_kept_open:
        return replace(line, is_kept_open=True)
    ahead = (breaker.opened_at + config.open_for - now).total_seconds()
    return replace(line, left=max(0, math.ceil(ahead)))


def describe_silent(agent: Any, *, now: datetime) -> StoppedAgent:
    fact = "never checked in"
    if agent.last_seen_at is not None:
        seconds = (now - agent.last_seen_at).total_seconds()
        fact = f"last check-in {rough_duration(seconds)} ago"
    return StoppedAgent(agent, "Silent", "ear", "st--silent", fact, f"{agent.waiting:,} waiting")
