"""Build the table of agents (pure) in groups of a fixed order, blocked first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from dashboard.agents.actions import allowed_actions
from dashboard.agents.breaker import BreakerView, describe_breaker
from dashboard.agents.rates import Range, Rates
from dashboard.wording.badges import breaker_badge
from dashboard.wording.formatting import counted, describe_waiting
from ledger.states import BreakerState
from retries import breaker
from retries.verbs.verb import Verb

MOST_COUNTED = 200  # waiting rows of each kind are counted up to here


@dataclass(frozen=True, slots=True)
class Group:
    """A section of the table; an agent is listed in the first section that fits."""

    key: str
    label: str
    icon: str
    css: str


def breaker_group(key: str, label: str, state: BreakerState) -> Group:
    badge = breaker_badge(state)
    return Group(key, label, badge.icon, badge.css)


GROUPS = (
    breaker_group("tripped", "Tripped", BreakerState.OPEN),
    breaker_group("half-open", "Half open", BreakerState.HALF_OPEN),
    Group("silent", "Silent", "ear", "st--silent"),
    Group("paused", "Paused", "pause", ""),
    Group("limited", "At a limit", "clock", "st--silent"),
    Group("working", "Healthy", "c-closed", "st--closed"),
)


@dataclass(frozen=True, slots=True)
class Run:
    """The newest running attempt of an agent, and how many there are."""

    task_id: UUID
    title: str
    count: int

    @property
    def more(self) -> int:
        return self.count - 1


@dataclass(frozen=True)
class FleetRow:
    """An agent in the table, with the rates and runs of all agents by their ids."""

    agent: Any
    group: Group
    range: Range
    now: datetime
    all_rates: Mapping[UUID, Rates]
    runs: Mapping[UUID, Run]

    @property
    def pk(self) -> UUID:
        id: UUID = self.agent.pk
        return id

    @property
    def rates(self) -> Rates:
        return self.all_rates.get(self.pk) or Rates(self.range)

    @property
    def run(self) -> Run | None:
        return self.runs.get(self.pk)

    @cached_property
    def breaker(self) -> BreakerView:
        return describe_breaker(self.agent, now=self.now, config=breaker.read_config())

    def with_runs(self, runs: Mapping[UUID, Run]) -> "FleetRow":
        return replace(self, runs=runs)

    @property
    def running(self) -> int:
        return self.run.count if self.run else 0

    @property
    def slots(self) -> str:
        most = self.agent.concurrency
        return f"{self.running:,}/{most:,}" if most else f"{self.running:,}"

    @property
    def actions(self) -> list[Verb]:
        return allowed_actions(self.breaker.state, is_kept_open=self.breaker.is_kept_open)

    @property
    def waiting(self) -> int:
        return sum_waiting(self.agent)

    @property
    def waiting_text(self) -> str:
        return f"{self.waiting:,}{'+' if is_capped(self.agent, MOST_COUNTED) else ''}"

    @property
    def idle_text(self) -> str:
        if self.breaker.is_open:
            return "Gets no work"
        if self.agent.paused:
            return "Paused"
        if self.waits_until:
            return "At a limit"
        return "Nothing" if self.agent.silent else "Idle"

    @property
    def waits_until(self) -> datetime | None:
        until: datetime | None = self.agent.waits_until
        return until if until and until > self.now else None

    @property
    def breaker_note(self) -> str:
        view = self.breaker
        if view.is_half_open:
            if view.successes:
                return f"{view.successes} of {counted(view.config.success_threshold, 'probe')}"
            return "probe runs" if view.probe else "probe is next"
        if view.is_closed and view.failures:
            return f"{view.failures} of {counted(view.config.failure_threshold, 'failure')}"
        return ""


@dataclass(frozen=True, slots=True)
class Section:
    """A group with its agents on this page, and the texts of its head about all of them."""

    group: Group
    rows: list[FleetRow]
    total: int
    note: str


def state_of(agent: Any) -> BreakerState:
    """Return the state of an agent's breaker; an agent without a row has a closed one."""
    return BreakerState(agent.breaker.state) if hasattr(agent, "breaker") else BreakerState.CLOSED


def group_of(agent: Any, *, now: datetime) -> Group:
    state = state_of(agent)
    if state == BreakerState.OPEN:
        return GROUPS[0]
    if state == BreakerState.HALF_OPEN:
        return GROUPS[1]
    if agent.silent:
        return GROUPS[2]
    if agent.paused:
        return GROUPS[3]
    return GROUPS[4] if agent.waits_until and agent.waits_until > now else GROUPS[5]


def sum_waiting(agent: Any) -> int:
    total: int = agent.tasks_queued + agent.tasks_retry + agent.tasks_held + agent.queued
    return total


def is_capped(agent: Any, most: int) -> bool:
    """Return whether more may wait for the agent than was counted, up to `most` of each kind."""
    counts: tuple[int, ...] = (
        agent.tasks_queued,
        agent.tasks_retry,
        agent.tasks_held,
        agent.queued,
    )
    return max(counts) >= most


LONG_AGO = datetime(1, 1, 1, tzinfo=UTC)


def build_sections(every: Sequence[FleetRow], page: Sequence[FleetRow]) -> list[Section]:
    """Return the sections of a page; their heads count the agents on every page."""
    sections = []
    for group in GROUPS:
        agents = [row.agent for row in every if row.group is group]
        if rows := [row for row in page if row.group is group]:
            sections.append(Section(group, rows, len(agents), describe_group(group, agents, rows)))
    return sections


def describe_group(group: Group, agents: Sequence[Any], rows: Sequence[FleetRow]) -> str:
    tasks = sum(each.tasks_queued + each.tasks_retry + each.tasks_held for each in agents)
    if group.key == "tripped":
        waits = f"; {counted(tasks, 'task')} {'waits' if tasks == 1 else 'wait'}" if tasks else ""
        return f"get no work until a probe succeeds{waits}"
    if group.key == "half-open":
        return "one probe at a time"
    if group.key == "silent":
        said = describe_waiting(tasks, sum(each.queued for each in agents))
        return f"have not checked in lately; {said} waiting"
    if group.key == "paused":
        return "by a person"
    if group.key == "limited":
        return f"get no tasks until their accounts reset; {counted(tasks, 'task')} waiting"
    if len(rows) < len(agents):
        return ""
    running = sum(1 for row in rows if row.run)
    return f"· {running} running"
