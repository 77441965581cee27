"""Count what agents create and store with their own tokens, and refuse what exceeds a day's limit.

One row per agent holds its counts of the latest day. The row lock lets only one of its calls count
at a time, so a limit is exact; the day's tasks and messages are never read.
"""

from datetime import UTC, datetime, time, timedelta
from typing import Any

from django.conf import settings

from ledger.database import sql
from ledger.database.process_counters import RATE_LIMITED
from ledger.errors import RateLimited
from ledger.models import Agent

MIB = 1024 * 1024
# What a session or a message takes in the database beside its text.
ROW_BYTES = 256


def count_statement(column: str, caller: str) -> str:
    """Return the statement that adds %(more)s to a count; it returns no row beyond %(most)s.

    `caller` is a relation with the agent's id as `agent_id`, or no row if nothing is counted.
    """
    other = {"tasks": "session_bytes", "session_bytes": "tasks"}[column]
    total = f"case d.day when excluded.day then d.{column} else 0 end + excluded.{column}"
    return f"""insert into ledger_dailytaskcount as d (agent_id, day, {column}, {other})
select k.agent_id, %(day)s::date, %(more)s::bigint, 0 from {caller} k
    where %(more)s::bigint <= %(most)s::bigint
on conflict (agent_id) do update
    set {column} = {total}, {other} = case d.day when excluded.day then d.{other} else 0 end,
        day = excluded.day
    where {total} <= %(most)s::bigint
returning agent_id"""


COUNT_TASKS = count_statement("tasks", "(select %(agent)s::uuid as agent_id)")
COUNT_SESSION_BYTES = count_statement("session_bytes", "(select %(agent)s::uuid as agent_id)")
# What an agent's own token stores counts for its day. The count's row is locked first, then the
# session's.
COUNTED = f"""counting as (
        select c.agent_id from caller c join ledger_session s
            on s.id = %(session)s and s.project_id = c.project_id and s.agent_id = c.agent_id
    ), counted as ({count_statement("session_bytes", "counting")}),"""
IS_OVER = "exists (select from counting) and not exists (select from counted)"


def count_tasks(agent: Agent, more: int, *, now: datetime) -> None:
    """Count `more` tasks that the agent's own token creates now; raises RateLimited.

    Call it in the transaction that inserts the tasks: those of a refused call do not count. A day
    is a day in UTC.
    """
    most = settings.TENFOUR["AGENT_TASKS_PER_DAY"]
    if most and not sql.run(COUNT_TASKS, agent=agent.pk, day=day_of(now), more=more, most=most):
        raise refusal(
            "agent_tasks",
            f"An agent's tokens can create at most {most} tasks a day.",
            hint="Create tasks with a producer's token, or raise TENFOUR_AGENT_TASKS_PER_DAY.",
            now=now,
        )


def count_session_bytes(agent: Agent, more: int, *, now: datetime) -> None:
    """Count `more` bytes that the agent's own token stores in sessions now; raises RateLimited.

    Call it in the transaction that stores them.
    """
    most = read_session_limit()
    values = {"agent": agent.pk, "day": day_of(now), "more": more, "most": most}
    if most and not sql.run(COUNT_SESSION_BYTES, **values):
        raise session_refusal(now)


def session_values(more: int, *, now: datetime) -> dict[str, Any]:
    return {"day": day_of(now), "more": more, "most": read_session_limit() or 2**62}


def session_refusal(now: datetime) -> RateLimited:
    most = settings.TENFOUR["AGENT_SESSION_MIB_PER_DAY"]
    return refusal(
        "agent_sessions",
        f"An agent's tokens can store at most {most} MiB in sessions a day.",
        hint="Store them with a producer's token, or raise TENFOUR_AGENT_SESSION_MIB_PER_DAY.",
        now=now,
    )


def read_session_limit() -> int:
    """Return the limit in bytes; 0 for no limit."""
    most: int = settings.TENFOUR["AGENT_SESSION_MIB_PER_DAY"] * MIB
    return most


def day_of(now: datetime) -> Any:
    return now.astimezone(UTC).date()


def refusal(counter: str, sentence: str, *, hint: str, now: datetime) -> RateLimited:
    RATE_LIMITED.labels(counter).inc()
    now = now.astimezone(UTC)
    tomorrow = datetime.combine(now.date() + timedelta(days=1), time(), UTC)
    return RateLimited(
        f"{sentence} The day ends at midnight UTC.",
        hint=hint,
        retry_after_s=max(1, round((tomorrow - now).total_seconds())),
    )
