"""Count the tasks of a list by state and agent, exactly up to a limit."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import Count, F, OuterRef, QuerySet

from dashboard.lists.compiled_queries import compiled
from dashboard.lists.query_box import ANY, Values
from dashboard.lists.shared_queries import CountOf, hash_of, of_project
from dashboard.tasks.filters import STATES, TaskQuery
from dashboard.tasks.listing.common_words import are_common
from dashboard.tasks.queries import filter_tasks, is_retried
from dashboard.wording.formatting import COUNT_CAP
from ledger import search_words
from ledger.database.optional_cache import get_or_compute_slow
from ledger.models import Agent, Project, Task
from ledger.states import TaskState

FACETS_SHOWN = 8
AGENTS_COUNTED = 100


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """The number of matching tasks by state and agent, each for any value of that key."""

    states: dict[str, int]
    agents: list[tuple[str, int]]  # most frequent first
    are_some: bool = False  # whether only the newest tasks were counted by agent
    is_common: bool = False  # whether many tasks have the query's words

    @property
    def total(self) -> int:
        return sum(self.states.values())

    def of(self, query: TaskQuery) -> int:
        wanted = {state for name in query.state.wanted for state in STATES[name]} or set(TaskState)
        unwanted = {state for name in query.state.unwanted for state in STATES[name]}
        return sum(self.states.get(state, 0) for state in wanted - unwanted)


def count_tasks(query: TaskQuery, project: Project | None) -> TaskCounts:
    where = project.id if project else "all"
    common = are_common(query.words)
    states = hash_of(query.stateless())
    agents = hash_of(query.agentless())
    by_agent, are_some = get_or_compute_slow(
        f"tasks-by-agent:{where}:{agents}",
        lambda: count_by_agent(query.agentless(), project, common),
    )
    return TaskCounts(
        get_or_compute_slow(
            f"tasks-by-state:{where}:{states}",
            lambda: count_by_state(query.stateless(), project, common),
        ),
        sorted(by_agent.items(), key=lambda each: -each[1])[:FACETS_SHOWN],
        are_some,
        common,
    )


def count_by_state(query: TaskQuery, project: Project | None, common: bool) -> dict[str, int]:
    if is_read_at_once(query) and not common:
        return count_groups(group_by_state(query, project))
    counts: dict[str, int] = next(iter(fetch_state_counts(query, project)), {})
    if common and counts.get(TaskState.DONE, 0) < COUNT_CAP:
        done = replace(query, state=Values((TaskState.DONE.value,)))
        counts |= count_groups(group_by_state(done, project))
    return counts


def count_by_agent(
    query: TaskQuery, project: Project | None, common: bool
) -> tuple[dict[str, int], bool]:
    """Return the number of tasks by agent, and whether only the newest ones were counted."""
    if common:
        counts = count_groups(group_newest_by_agent(query, project))
        if sum(counts.values()) >= COUNT_CAP:
            return counts, True
    if is_read_at_once(query):
        return count_groups(group_by_agent(query, project)), False
    rows = fetch_agent_counts(query, project)
    return {row["name"]: row["n"] for row in rows if row["n"]}, False


def is_read_at_once(query: TaskQuery) -> bool:
    """Return whether one pass finds the tasks for all states and agents.

    Otherwise an index leads to the tasks of each state and agent that match.
    """
    named = query.words or query.error != ANY or query.pattern != ANY
    return bool(named or query.changed or is_retried(query))


def count_groups(groups: Iterable[dict[str, Any]]) -> dict[str, int]:
    return {each["value"]: min(each["n"], COUNT_CAP) for each in groups}


@compiled
def group_by_state(query: TaskQuery, project: Project | None) -> QuerySet[Any, dict[str, Any]]:
    """Return the number of matching tasks in each state that has any."""
    return group(filter_tasks(query, project), "state")


@compiled
def group_by_agent(query: TaskQuery, project: Project | None) -> QuerySet[Any, dict[str, Any]]:
    """Return the number of matching tasks of each agent that has any."""
    return group(filter_tasks(query, project), "agent__name")


@compiled
def group_newest_by_agent(
    query: TaskQuery, project: Project | None
) -> QuerySet[Any, dict[str, Any]]:
    """Return the number of the newest tasks that have the words themselves, by agent."""
    found = filter_tasks(query, project, has_word=search_words.match_own_words)
    newest = found.order_by("-id").values("pk")[:COUNT_CAP]
    return group(Task.objects.filter(pk__in=newest), "agent__name")


def group(found: QuerySet[Any, Any], column: str) -> QuerySet[Any, dict[str, Any]]:
    rows: QuerySet[Any, dict[str, Any]] = found.values(value=F(column)).annotate(n=Count("pk"))
    return rows.order_by("value")


@compiled
def fetch_state_counts(query: TaskQuery, project: Project | None) -> QuerySet[Any, dict[str, Any]]:
    """Return one row with the number of tasks in each state.

    Words are looked for in each task that is not done: these are few. Of those that are done, only
    the ones that have the words themselves are counted.
    """
    counts: dict[str, Any] = {}
    for state in TaskState:
        is_done = state == TaskState.DONE
        has_word = search_words.match_own_words if is_done else search_words.check_task
        rows = filter_tasks(query, project, has_word=has_word).filter(state=state)
        counts[state.value] = CountOf(rows.order_by().values("pk")[:COUNT_CAP])
    found: QuerySet[Any, dict[str, Any]] = (
        Project.objects.order_by().annotate(**counts).values(*counts)
    )
    return found[:1]


@compiled
def fetch_agent_counts(query: TaskQuery, project: Project | None) -> QuerySet[Any, dict[str, Any]]:
    """Return the number of tasks of each agent, of those that did something last."""
    tasks = filter_tasks(query, project).filter(agent=OuterRef("pk")).order_by()
    agents = of_project(Agent.objects.all(), project).order_by(
        F("last_seen_at").desc(nulls_last=True), "name", "id"
    )
    counted = CountOf(tasks.values("pk")[:COUNT_CAP])
    rows: QuerySet[Any, dict[str, Any]] = agents.annotate(n=counted).values("name", "n")
    return rows[:AGENTS_COUNTED]
