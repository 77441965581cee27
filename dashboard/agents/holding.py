"""Read an agent's running attempts, and its failures of the last day by pattern."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from ledger.database import sql
from ledger.models import Agent
from ledger.values.ids import SLACK, first_id
from retries.states import PatternState

RUNNING_SHOWN = 8
PATTERNS_SHOWN = 6
LINE = 200
DAY = timedelta(hours=24)

RUNNING = f"""select a.task_id, a.number, a.started_at, a.heartbeat_at, a.lease_expires_at,
    right(a.last_output, 2000) as output, t.ref, coalesce(nullif(t.title, ''), t.type) as title,
    t.attempt_limit
from ledger_attempt a join ledger_task t on t.id = a.task_id
where a.agent_id = %(agent)s and a.outcome is null order by a.id desc limit {RUNNING_SHOWN}"""


@dataclass(frozen=True, slots=True)
class RunningAttempt:
    task_id: UUID
    ref: str
    title: str
    number: int
    limit: int
    started_at: datetime
    heartbeat_at: datetime | None
    lease_expires_at: datetime
    last_line: str


def list_running(agent: Agent) -> list[RunningAttempt]:
    return [
        RunningAttempt(
            row["task_id"],
            row["ref"] or "",
            row["title"],
            row["number"],
            row["attempt_limit"],
            row["started_at"],
            row["heartbeat_at"],
            row["lease_expires_at"],
            find_last_line(row["output"]),
        )
        for row in sql.run(RUNNING, agent=agent.pk)
    ]


def find_last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1][:LINE] if lines else ""


# ---- failures

# by ids, which begin with their time: there is no index on an agent's failures
PATTERNS = """with counted as (
    select g.pattern_id, count(*) filter (where g.at >= %(since)s) as today,
        count(*) filter (where g.at < %(since)s) as before
    from retries_grouped g
    where g.failure_id >= %(floor)s and g.at >= %(before)s and g.agent_id = %(agent)s
    group by 1
)
select c.*, left(p.template, 240) as template, p.state, sum(c.today) over () as total
from counted c join retries_failurepattern p on p.id = c.pattern_id
where c.today > 0 order by c.today desc, c.pattern_id"""
LEAST_RISING = 3


@dataclass(frozen=True, slots=True)
class PatternCount:
    """The failures of one pattern in the last day, beside those of the day before."""

    pattern_id: UUID
    template: str
    today: int
    width: int  # of its bar, in percent of the longest
    open: int  # escalations
    rising: bool


@dataclass(frozen=True, slots=True)
class PatternCounts:
    rows: list[PatternCount]
    total: int


def count_patterns(
    agent: Agent, open_by_pattern: Mapping[UUID, int], *, now: datetime
) -> PatternCounts:
    before = now - 2 * DAY
    rows = sql.run_custom_plan(
        PATTERNS, agent=agent.pk, since=now - DAY, before=before, floor=first_id(before - SLACK)
    )
    return PatternCounts(
        [
            PatternCount(
                row["pattern_id"],
                row["template"],
                row["today"],
                round(100 * row["today"] / rows[0]["today"]),
                open_by_pattern.get(row["pattern_id"], 0),
                is_rising(row),
            )
            for row in rows[:PATTERNS_SHOWN]
        ],
        int(rows[0]["total"]) if rows else 0,
    )


def is_rising(row: Mapping[str, Any]) -> bool:
    """Return whether a pattern came back, or failed at least twice as often as the day before."""
    if row["state"] == PatternState.REGRESSED:
        return True
    return bool(row["today"] >= LEAST_RISING and row["today"] >= 2 * row["before"])
