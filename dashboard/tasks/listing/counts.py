"""Count the tasks of a list by state and agent, exactly up to a limit."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import Count, F, OuterRef, QuerySet

from dashboard.lists.branches import list_branches
from dashboard.lists.compiled_queries import compiled
from dashboard.lists.query_box import ANY, NO_ONE, Values
from dashboard.lists.shared_queries import CountOf, hash_of, of_project
from dashboard.tasks.filters import STATES, TaskQuery
from dashboard.tasks.listing import common_words
from dashboard.tasks.queries import filter_tasks, is_retried
from dashboard.wording.formatting import COUNT_CAP
from ledger.database.optional_cache import get_or_compute_slow
from ledger.models import Agent, Project
from ledger.states import TaskState

FACETS_SHOWN = 8
AGENTS_COUNTED = 100


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """The number of matching tasks by state and agent, each for any value of that key."""

    states: dict[str, int]
    agents: list[tuple[str, int]]  # most frequent first
    is_common: bool = False  # many tasks have the words: agents are counted in the newest alone
    cut: frozenset[str] = frozenset()  # the states of which only the newest tasks were counted

    @property
    def total(self) -> int:
        return sum(self.states.values())

    def of(self, query: TaskQuery) -> int:
        return sum(self.states.get(state, 0) for state in list_states(query))

    def is_cut(self, query: TaskQuery) -> bool:
        """Return whether the query may find more tasks than were counted."""
        return not self.cut.isdisjoint(list_states(query))


def list_states(query: TaskQuery) -> set[TaskState]:
    wanted = {state for name in query.state.wanted for state in STATES[name]} or set(TaskState)
    return wanted - {state for name in query.state.unwanted for state in STATES[name]}


def count_tasks(query: TaskQuery, project: Project | None) -> TaskCounts:
    where = project.id if project else "all"
    common = common_words.are_common(query, project)
    states = hash_of(query.stateless())
    agents = hash_of(query.agentless())
    by_agent = get_or_compute_slow(
        f"tasks-by-agent:{where}:{agents}",
        lambda: count_by_agent(query.agentless(), project, common),
    )
    by_state, cut = get_or_compute_slow(
        f"tasks-by-state:{where}:{states}",
        lambda: count_by_state(query.stateless(), project, common),
    )
    most_frequent = sorted(by_agent.items(), key=lambda each: -each[1])[:FACETS_SHOWN]
    return TaskCounts(by_state, most_frequent, common, cut)


def count_by_state(
    query: TaskQuery, project: Project | None, common: bool
) -> tuple[dict[str, int], frozenset[str]]:
    """Return the number of tasks by state, and the states with only the newest tasks counted."""
    if common:
        row = next(iter(count_newest_by_state(query, project, common_words.MOST_COUNTED)), {})
        cut = frozenset(state for state in TaskState if row.pop(f"more_{state}", 0))
        return row, cut
    if is_read_at_once(query):
        return count_groups(group_by_state(query, project)), frozenset()
    return next(iter(fetch_state_counts(query, project)), {}), frozenset()


def count_by_agent(query: TaskQuery, project: Project | None, common: bool) -> dict[str, int]:
    if common:
        return count_groups(group_newest_by_agent(query, project, common_words.MOST_COUNTED))
    if is_read_at_once(query):
        return count_groups(group_by_agent(query, project))
    rows = fetch_agent_counts(query, project)
    return {row["name"]: row["n"] for row in rows if row["n"]}


def is_read_at_once(query: TaskQuery) -> bool:
    """Return whether one pass finds the tasks for all states and agents."""
    # Otherwise an index finds the matching tasks of each state and agent.
    people = query.assignee.wanted
    owned = people and NO_ONE not in people
    # A pool's tasks are those of many agents, and an index finds all of them.
    named = (
        query.is_searched
        or owned
        or any(each != ANY for each in (query.error, query.pattern, query.pool))
    )
    return bool(named or query.changed or is_retried(query))


def count_groups(groups: Iterable[dict[str, Any]]) -> dict[str, int]:
    return {each["value"]: min(each["n"], COUNT_CAP) for each in groups}


@compiled
def group_by_state(query: TaskQuery, project: Project | None) -> QuerySet[Any, dict[str, Any]]:
    return group(filter_tasks(query, project), "state")


@compiled
def group_by_agent(query: TaskQuery, project: Project | None) -> QuerySet[Any, dict[str, Any]]:
    return group(filter_tasks(query, project), "agent__name")


@compiled
def group_newest_by_agent(
    query: TaskQuery, project: Project | None, most: int
) -> QuerySet[Any, dict[str, Any]]:
    return group(common_words.list_newest(query, project, most), "agent__name")


@compiled
def count_newest_by_state(
    query: TaskQuery, project: Project | None, most: int
) -> QuerySet[Any, dict[str, Any]]:
    """Return one row: by state, how many of its newest tasks have the words, and if it has more."""
    counts: dict[str, Any] = {}
    for state in TaskState:
        of_state = replace(query, state=Values((state.value,)))
        # in this order, an index finds the next one; the table may begin with empty pages
        rows = filter_tasks(common_words.unsearched(of_state), project).order_by("-id").values("pk")
        found = common_words.list_newest(of_state, project, most)
        counts[state.value] = CountOf(found.values("pk"))
        counts[f"more_{state}"] = CountOf(rows[most : most + 1])
    return select_counts(counts)


def group(found: QuerySet[Any, Any], column: str) -> QuerySet[Any, dict[str, Any]]:
    rows: QuerySet[Any, dict[str, Any]] = found.values(value=F(column)).annotate(n=Count("pk"))
    return rows.order_by("value")


@compiled
def fetch_state_counts(query: TaskQuery, project: Project | None) -> QuerySet[Any, dict[str, Any]]:
    counts: dict[str, Any] = {}
    for state in TaskState:
        first, *others = (
            filter_tasks(each, project).filter(state=state).order_by().values("pk")[:COUNT_CAP]
            for each in list_branches(query) or [query]
        )
        counts[state.value] = CountOf(first.union(*others)[:COUNT_CAP] if others else first)
    return select_counts(counts)


def select_counts(counts: dict[str, Any]) -> QuerySet[Any, dict[str, Any]]:
    rows: QuerySet[Any, dict[str, Any]] = (
        Project.objects.order_by().annotate(**counts).values(*counts)
    )
    return rows[:1]


@compiled
def fetch_agent_counts(query: TaskQuery, project: Project | None) -> QuerySet[Any, dict[str, Any]]:
    # Only the agents that did something last are counted.
    tasks = filter_tasks(query, project).filter(agent=OuterRef("pk")).order_by()
    agents = of_project(Agent.objects.all(), project).order_by(
        F("last_seen_at").desc(nulls_last=True), "name", "id"
    )
    counted = CountOf(tasks.values("pk")[:COUNT_CAP])
    rows: QuerySet[Any, dict[str, Any]] = agents.annotate(n=counted).values("name", "n")
    return rows[:AGENTS_COUNTED]
