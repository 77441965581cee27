"""Count the tasks of a list by state and agent, exactly up to a limit."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, F, OuterRef, QuerySet

from dashboard.compiled_queries import compiled
from dashboard.formatting import COUNT_CAP
from dashboard.shared_queries import CountOf, hash_of, of_project
from dashboard.tasks.filters import STATES, TaskQuery
from dashboard.tasks.queries import filter_tasks
from ledger.models import Agent, Project
from ledger.optional_cache import get_or_compute_slow
from ledger.states import TaskState

FACETS_SHOWN = 8
AGENTS_COUNTED = 100


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """The number of matching tasks by state and agent, each for any value of that key."""

    states: dict[str, int]
    agents: list[tuple[str, int]]  # most frequent first

    @property
    def total(self) -> int:
        return sum(self.states.values())

    def of(self, query: TaskQuery) -> int:
        """The number of tasks in the states that a query asks for."""
        wanted = {state for name in query.state.wanted for state in STATES[name]} or set(TaskState)
        unwanted = {state for name in query.state.unwanted for state in STATES[name]}
        return sum(self.states.get(state, 0) for state in wanted - unwanted)


def count_tasks(query: TaskQuery, project: Project | None) -> TaskCounts:
    """Count with one statement for each key."""
    where = project.id if project else "all"

    def count_states() -> dict[str, int]:
        if query.words:
            return count_groups(group_by_state(query.stateless(), project))
        rows = fetch_state_counts(query.stateless(), project)
        return rows[0] if rows else {}

    def count_agents() -> list[tuple[str, int]]:
        if query.words:
            counted = list(count_groups(group_by_agent(query.agentless(), project)).items())
        else:
            rows = fetch_agent_counts(query.agentless(), project)
            counted = [(row["name"], row["n"]) for row in rows if row["n"]]
        return sorted(counted, key=lambda each: -each[1])[:FACETS_SHOWN]

    states = hash_of(query.stateless())
    agents = hash_of(query.agentless())
    return TaskCounts(
        get_or_compute_slow(f"tasks-by-state:{where}:{states}", count_states),
        get_or_compute_slow(f"tasks-by-agent:{where}:{agents}", count_agents),
    )


def count_groups(groups: Iterable[dict[str, Any]]) -> dict[str, int]:
    return {each["value"]: min(each["n"], COUNT_CAP) for each in groups}


# A search for words reads all that it finds, so it counts them in one pass instead of searching
# again for each state and agent.
@compiled
def group_by_state(query: TaskQuery, project: Project | None) -> QuerySet[Any, dict[str, Any]]:
    """Return the number of matching tasks in each state that has any."""
    found: QuerySet[Any, Any] = filter_tasks(query, project)
    rows: QuerySet[Any, dict[str, Any]] = found.values(value=F("state")).annotate(n=Count("pk"))
    return rows.order_by("value")


@compiled
def group_by_agent(query: TaskQuery, project: Project | None) -> QuerySet[Any, dict[str, Any]]:
    """Return the number of matching tasks of each agent that has any."""
    found: QuerySet[Any, Any] = filter_tasks(query, project)
    rows: QuerySet[Any, dict[str, Any]] = found.values(value=F("agent__name")).annotate(
        n=Count("pk")
    )
    return rows.order_by("value")


@compiled
def fetch_state_counts(query: TaskQuery, project: Project | None) -> QuerySet[Any, dict[str, Any]]:
    """Return one row with the number of tasks in each state."""
    counts: dict[str, Any] = {
        state.value: CountOf(
            filter_tasks(query, project).filter(state=state).order_by().values("pk")[:COUNT_CAP]
        )
        for state in TaskState
    }
    rows: QuerySet[Any, dict[str, Any]] = (
        Project.objects.order_by().annotate(**counts).values(*counts)
    )
    return rows[:1]


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
