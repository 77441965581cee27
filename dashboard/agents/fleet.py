"""Build the table of agents (pure) in groups of a fixed order, blocked first."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from dashboard.agents.actions import allowed_actions
from dashboard.agents.breaker import BreakerView, describe_breaker
from dashboard.agents.filters import AgentQuery
from dashboard.agents.rates import Range, Rates
from dashboard.lists.query_box import has_value
from dashboard.lists.sorting import Columns, SortColumn, read_sort
from dashboard.wording.badges import breaker_badge
from dashboard.wording.formatting import counted, describe_waiting
from ledger.states import BreakerState
from retries import breaker
from retries.verbs.verb import Verb

PAGE = 100
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
    Group("working", "Healthy", "c-closed", "st--closed"),
)
SHOWN = ("tripped", "half-open", "silent", "paused")


@dataclass(frozen=True, slots=True)
class Run:
    """The newest running attempt of an agent, and how many there are."""

    task_id: UUID
    title: str
    count: int

    @property
    def more(self) -> int:
        return self.count - 1


@dataclass(frozen=True, slots=True)
class FleetRow:
    """An agent in the table."""

    agent: Any
    group: Group
    breaker: BreakerView
    run: Run | None
    rates: Rates

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
        """Return the tasks and instructions that wait for the agent."""
        return sum_waiting(self.agent)

    @property
    def waiting_text(self) -> str:
        return f"{self.waiting:,}{'+' if is_capped(self.agent, MOST_COUNTED) else ''}"

    @property
    def idle_text(self) -> str:
        """Return why nothing runs."""
        if self.breaker.is_open:
            return "Gets no work"
        if self.agent.paused:
            return "Paused"
        return "Nothing" if self.agent.silent else "Idle"

    @property
    def breaker_note(self) -> str:
        """Return the text beside the state of a breaker that is not open."""
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


@dataclass(frozen=True, slots=True)
class Fleet:
    """A page of the table."""

    sections: list[Section]
    counts: Mapping[str, int]  # of all agents, by group; paused counts every paused agent
    matching: Mapping[str, int]  # the same of those that match the query in any state
    found: int
    page: int
    pages: int

    @property
    def rows(self) -> list[FleetRow]:
        return [row for section in self.sections for row in section.rows]


def state_of(agent: Any) -> BreakerState:
    """Return the state of an agent's breaker; an agent without a row has a closed one."""
    return BreakerState(agent.breaker.state) if hasattr(agent, "breaker") else BreakerState.CLOSED


def group_of(agent: Any) -> Group:
    state = state_of(agent)
    if state == BreakerState.OPEN:
        return GROUPS[0]
    if state == BreakerState.HALF_OPEN:
        return GROUPS[1]
    return GROUPS[2] if agent.silent else GROUPS[3] if agent.paused else GROUPS[4]


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
# the columns that sort within a group; agents without a value, which is None, come last
SORT_COLUMNS: Columns = {
    "name": SortColumn(lambda agent, rates, run: agent.name),
    "done": SortColumn(lambda agent, rates, run: rates.now.tasks_done, largest_first=True),
    "errors": SortColumn(lambda agent, rates, run: rates.now.error_rate, largest_first=True),
    "first": SortColumn(lambda agent, rates, run: rates.now.first_rate),
    "slots": SortColumn(lambda agent, rates, run: run.count if run else 0, largest_first=True),
    "waiting": SortColumn(lambda agent, rates, run: sum_waiting(agent), largest_first=True),
    "seen": SortColumn(lambda agent, rates, run: agent.last_seen_at, largest_first=True),
}
RATED = {"done", "errors", "first"}  # the columns that need the rates
RUNS = {"slots"}  # the columns that need the running attempts
DEFAULT_SORT = "-waiting"


def read_agent_sort(name: str) -> str:
    """Return the order that an address asks for if there is one, or an empty string."""
    return read_sort(name, SORT_COLUMNS, None)


def needs(columns: set[str], sort: str) -> bool:
    return sort.removeprefix("-") in columns


def choose_agents(
    agents: Iterable[Any], query: AgentQuery, *, now: datetime
) -> list[tuple[Any, Group]]:
    return [
        (agent, group)
        for agent in agents
        if is_chosen(agent, (group := group_of(agent)), query, now=now)
    ]


def is_chosen(agent: Any, group: Group, query: AgentQuery, *, now: datetime) -> bool:
    # a paused agent counts as paused in every group
    states = {group.key, *(["paused"] if agent.paused else [])}
    away = now - (agent.last_seen_at or LONG_AGO)
    return (
        (not query.state.wanted or not states.isdisjoint(query.state.wanted))
        and states.isdisjoint(query.state.unwanted)
        and has_value(query.agent, agent.name)
        and (query.older is None or away > query.older)
        and (query.newer is None or away <= query.newer)
        and (not query.ids or agent.pk in query.ids)
        and all(word.casefold() in agent.name.casefold() for word in query.words)
    )


def sort_agents(
    chosen: list[tuple[Any, Group]],
    rates: Mapping[UUID, Rates],
    runs: Mapping[UUID, Run],
    *,
    sort: str,
    range: Range,
) -> None:
    """Sort by group, then by the column, then by name."""
    none, by = Rates(range), sort or DEFAULT_SORT
    column = SORT_COLUMNS[by.removeprefix("-")].value

    def value_of(one: tuple[Any, Group]) -> Any:
        return column(one[0], rates.get(one[0].pk, none), runs.get(one[0].pk))

    chosen.sort(key=lambda one: one[0].name)
    known = [one for one in chosen if value_of(one) is not None]
    unknown = [one for one in chosen if value_of(one) is None]
    known.sort(key=value_of, reverse=by.startswith("-"))
    chosen[:] = sorted(known + unknown, key=lambda one: GROUPS.index(one[1]))


def count_groups(agents: Sequence[Any]) -> dict[str, int]:
    counts = dict.fromkeys((group.key for group in GROUPS), 0)
    for agent in agents:
        counts[group_of(agent).key] += 1
    counts["paused"] = sum(agent.paused for agent in agents)
    return counts | {"all": len(agents)}


def build_sections(
    chosen: Sequence[tuple[Any, Group]],
    page: Sequence[tuple[Any, Group]],
    *,
    runs: Mapping[UUID, Run],
    rates: Mapping[UUID, Rates],
    range: Range,
    now: datetime,
) -> list[Section]:
    """Return the sections of a page; their heads count the agents on every page."""
    config = breaker.read_config()
    sections = []
    for group in GROUPS:
        all_of = [agent for agent, own in chosen if own is group]
        rows = [
            FleetRow(
                agent,
                group,
                describe_breaker(agent, now=now, config=config),
                runs.get(agent.pk),
                rates.get(agent.pk) or Rates(range),
            )
            for agent, own in page
            if own is group
        ]
        if rows:
            note = describe_group(group, all_of, rows)
            sections.append(Section(group, rows, len(all_of), note))
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
    if len(rows) < len(agents):
        return ""
    running = sum(1 for row in rows if row.run)
    return f"· {running} running"
