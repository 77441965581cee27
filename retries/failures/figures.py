"""Figures of failure patterns: their failures, agents, and stuck tasks."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from ledger import sql
from ledger.states import TaskState
from retries.failures.patterns import BATCH_SIZE, stuck_tasks
from retries.models import FailurePattern

MOST_MERGED = 50  # templates that are listed
# Those that were deleted count as well.
TOTALS = """select pattern_id, sum(total)::int as total, max(last_at) as last_at from (
    select pattern_id, count(*) as total, max(at) as last_at
    from retries_grouped where pattern_id = any(%(ids)s) group by 1
    union all
    select pattern_id, failures, last_at from retries_pastfailures where pattern_id = any(%(ids)s)
) counted group by 1"""
AGENT_NAMES = """select g.pattern_id, array_agg(a.name order by a.name) as names from (
    select pattern_id, agent_id from retries_grouped where pattern_id = any(%(ids)s)
    union
    select pattern_id, agent_id from retries_pastfailures where pattern_id = any(%(ids)s)
) g
join ledger_agent a on a.id = g.agent_id group by 1"""
# of the agents with the most failures, the last ones first
BY_AGENT = """select agent_id, sum(n)::int as n from (
    select agent_id, count(*) as n, max(at) as last_at from retries_grouped
    where pattern_id = %(pattern)s group by 1
    union all
    select agent_id, failures, last_at from retries_pastfailures where pattern_id = %(pattern)s
) counted group by 1 order by n desc, max(last_at) desc limit %(most)s::int"""


@dataclass(frozen=True, slots=True)
class Total:
    """The number and the last time of a pattern's failures."""

    total: int
    last_at: datetime


def count_failures(ids: Sequence[UUID]) -> dict[UUID, Total]:
    """Return the number and the last time of the failures, by pattern."""
    rows = sql.run(TOTALS, ids=list(ids))
    return {row["pattern_id"]: Total(row["total"], row["last_at"]) for row in rows}


def list_agent_names(ids: Sequence[UUID]) -> dict[UUID, list[str]]:
    """Return the names of the agents with failures, by pattern."""
    return {row["pattern_id"]: row["names"] for row in sql.run(AGENT_NAMES, ids=list(ids))}


def count_by_agent(pattern_id: UUID, *, most: int) -> dict[UUID, int]:
    """Return the number of a pattern's failures by agent, the most first."""
    rows = sql.run(BY_AGENT, pattern=pattern_id, most=most)
    return {row["agent_id"]: row["n"] for row in rows}


def list_merged_templates(pattern: FailurePattern) -> list[str]:
    """Return the first templates that were merged into a pattern, and its own before them."""
    if not pattern.own_template:
        return []
    rows = pattern.merged.order_by("merged_at", "pk").values_list("template", flat=True)
    return [pattern.own_template, *rows[: MOST_MERGED - 1]]


@dataclass(frozen=True, slots=True)
class StuckTasks:
    """The numbers of tasks that failed, wait or are escalated because of a pattern."""

    dead: int
    waiting: int
    asked: int

    @property
    def total(self) -> int:
        return self.dead + self.waiting + self.asked


def count_stuck_tasks(pattern_id: UUID) -> StuckTasks:
    """Return the numbers of the tasks that a retry of the pattern covers."""
    states = [task.state for task in stuck_tasks([pattern_id]).only("state")[:BATCH_SIZE]]
    return StuckTasks(*map(states.count, (TaskState.FAILED, TaskState.RETRY, TaskState.ESCALATED)))
