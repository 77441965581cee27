"""Build an agent's row: presence, the last day's figures, breaker and allowed actions (pure)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from dashboard.agents.actions import allowed_actions
from dashboard.agents.breaker import BreakerView, describe_breaker
from dashboard.agents.presence import Presence, describe_presence
from dashboard.lists.shared_queries import silent_after
from dashboard.wording.formatting import describe_waiting
from ledger.instruction_records.stats import Statistics
from retries import breaker
from retries.verbs.verb import Verb


@dataclass(frozen=True, slots=True)
class AgentRow:
    """An agent with its figures of the last day."""

    agent: Any
    presence: Presence
    waiting: str  # what waits for an agent that is silent
    figures: Statistics
    breaker: BreakerView
    actions: list[Verb]

    @property
    def pending(self) -> int:
        """Return the number of instructions that a reset would cancel."""
        pending: int = self.agent.queued + self.agent.unanswered
        return pending


def build_row(agent: Any, figures: Mapping[UUID, Statistics], *, now: datetime) -> AgentRow:
    view = describe_breaker(agent, now=now, config=breaker.read_config())
    return AgentRow(
        agent,
        describe_presence(agent, now=now, silent_after=silent_after()),
        describe_waiting(agent.tasks_queued + agent.tasks_retry, agent.queued)
        if agent.silent
        else "",
        figures.get(agent.pk) or Statistics(agent.name),
        view,
        allowed_actions(view.state, is_kept_open=view.is_kept_open),
    )
