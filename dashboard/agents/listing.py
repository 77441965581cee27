"""The list of agents, blocked first: `state:tripped older:1h coder`."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.http import QueryDict
from django.utils.functional import SimpleLazyObject

from dashboard import steps
from dashboard.agents import queries
from dashboard.agents.fleet import GROUPS, LONG_AGO, FleetRow, build_sections, group_of
from dashboard.agents.rates import DAY, RANGES, Range, read_rates
from dashboard.frame.rendering import Visit
from dashboard.listing import Column, ListPage, State
from dashboard.lists.nearest_names import NameHints, suggest_agents
from dashboard.lists.query_box import ANY, Names, StateQuery, Values, has_value
from dashboard.lists.query_values import read_age
from dashboard.lists.shared_queries import hash_of
from dashboard.lists.sorting import SortColumn, largest
from dashboard.memory_listing import FoundRows, MemoryListing
from dashboard.steps import Beside
from ledger.database.optional_cache import get_or_compute
from ledger.models import Agent, Project

ORDER_S = 30  # how long "previous" and "next" keep the order of the list


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentQuery(StateQuery):
    agent: Values = ANY
    older: timedelta | None = None  # the time since it was last seen
    newer: timedelta | None = None

    @property
    def is_state_alone(self) -> bool:
        """Return whether the query asks for nothing but one state."""
        others = self.words or self.agent != ANY or self.older or self.newer
        return bool(self.one_state) and not others


@dataclass(frozen=True, slots=True)
class RangeChoice:
    """A range of the rates; its value is None for the default."""

    label: str
    value: str | None
    current: bool


def read_range(given: QueryDict) -> Range:
    return RANGES.get(given.get("range", ""), DAY)


class AgentList(MemoryListing[AgentQuery]):
    name = "agents"
    row_page = "agent"
    current = "agents"
    heading = "Agents"
    nouns = "agents"

    model = Agent
    query = AgentQuery
    keys = {
        "agent": Names(),
        "state": Names(tuple(group.key for group in GROUPS)),
        "older": read_age("older"),
        "newer": read_age("newer"),
    }
    # One button more would not fit beside the query box; the group has its heading in the list.
    states = {group.key: State("" if group.key == "limited" else group.label) for group in GROUPS}

    template = "agents/index.html"
    part = "agents/_agents.html"
    empty = "agents/_none.html"
    has_column_menu = False  # its bar is full
    bar = "agentsbar"
    example = "words in the name, state:silent  older:1h"
    # The columns sort the agents within each group.
    columns = (
        Column("Agent", "f-agent", "name", SortColumn(lambda row: row.agent.name)),
        Column("Breaker", "f-breaker"),
        Column("Running now", "f-now"),
        Column("Done", "f-rate r", "done", largest(lambda row: row.rates.now.tasks_done)),
        Column("Errors", "f-err r", "errors", largest(lambda row: row.rates.now.error_rate)),
        Column(
            "1st try", "f-n f-first r", "first", SortColumn(lambda row: row.rates.now.first_rate)
        ),
        Column("Slots", "f-n f-slots r", "slots", largest(lambda row: row.running)),
        Column("Waiting", "f-n r", "waiting", largest(lambda row: row.waiting)),
        Column("Seen", "f-seen r", "seen", largest(lambda row: row.agent.last_seen_at)),
    )
    default_sort = "-waiting"

    export_columns = dict.fromkeys(
        (
            *("id", "project", "name", "state", "breaker", "paused", "concurrency", "waiting"),
            *("attempts", "tasks_done", "error_rate", "last_seen_at", "created_at"),
        ),
        "",
    )

    def list_every(self, visit: Visit) -> list[FleetRow]:
        project, now, range = visit.scope.project, visit.now, read_range(visit.request.GET)
        agents = queries.list_agents(project, now)
        # Only the orders by them need the rates and the runs of all agents.
        rates: Any = SimpleLazyObject(partial(read_rates, project, range, now=now))
        runs: Any = SimpleLazyObject(partial(queries.read_runs, agents))
        return [FleetRow(each, group_of(each, now=now), range, now, rates, runs) for each in agents]

    def fits(self, row: FleetRow, query: AgentQuery, *, now: datetime) -> bool:
        agent, away = row.agent, now - (row.agent.last_seen_at or LONG_AGO)
        return (
            has_value(query.agent, agent.name)
            and (query.older is None or away > query.older)
            and (query.newer is None or away <= query.newer)
            and (not query.ids or agent.pk in query.ids)
            and all(word.casefold() in agent.name.casefold() for word in query.words)
        )

    def states_of(self, row: FleetRow) -> set[str]:
        # A paused agent counts as paused in every group, and one at a limit as limited.
        more = {"paused": row.agent.paused, "limited": row.waits_until}
        return {row.group.key, *(key for key, fits in more.items() if fits)}

    def sort(self, rows: list[Any], by: str) -> list[Any]:
        return sorted(super().sort(rows, by), key=lambda row: GROUPS.index(row.group))

    def build_title(self, query: AgentQuery, counts: FoundRows) -> str:
        numbers = self.count_rows(counts.every)
        problems = ((numbers["tripped"], "open"), (numbers["silent"], "silent"))
        text = ", ".join(f"{number:,} {problem}" for number, problem in problems if number)
        return f"{text} · {self.heading}" if text else self.heading

    def suggest(self, query: AgentQuery, project: Project | None, *, found: bool) -> NameHints:
        return suggest_agents(query, project, found=found)

    def read_extra(self, page: ListPage, visit: Visit) -> dict[str, Any]:
        range = read_range(visit.request.GET)
        return {
            "range": range,
            "ranges": [
                RangeChoice(each.label, None if each is DAY else each.key, each is range)
                for each in RANGES.values()
            ],
        }

    def build_entries(self, page: ListPage, visit: Visit) -> list[Any]:
        rows = page.page.rows
        runs = queries.read_runs([row.agent for row in rows]) if rows else {}
        return build_sections(page.counts.shown, [row.with_runs(runs) for row in rows])

    def list_values(self, row: FleetRow) -> Iterator[Any]:
        agent, rates = row.agent, row.rates.now
        yield from (agent.pk, agent.project.name, agent.name, row.group.key)
        yield agent.breaker.state if hasattr(agent, "breaker") else "closed"
        yield from (agent.paused, agent.concurrency, row.waiting)
        yield from (rates.attempts, rates.tasks_done, rates.error_rate)
        yield from (agent.last_seen_at, agent.created_at)

    def find_beside(self, query: AgentQuery, visit: Visit, id: UUID) -> Beside:
        project, range = visit.scope.project, read_range(visit.request.GET)
        # While a person goes from agent to agent, the order must not change.
        key = hash_of((project and project.pk, query, self.read_order(visit), range.key))
        ids = get_or_compute(
            f"agents:{key}", lambda: self.find_all(query, visit).ids, seconds=ORDER_S
        )
        return steps.place_in(ids, id)


AGENTS = AgentList()
