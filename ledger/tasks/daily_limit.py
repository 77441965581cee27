"""Count the tasks that agents create for themselves, and refuse those beyond a day's limit."""

from datetime import UTC, datetime, time, timedelta

from django.conf import settings

from ledger import sql
from ledger.errors import RateLimited
from ledger.models import Agent
from ledger.process_counters import RATE_LIMITED

# One row per agent. The row lock lets only one of its calls count at a time, so the limit is exact;
# the day's rows of tasks are never read.
COUNT = """insert into ledger_dailytaskcount as d (agent_id, day, tasks)
select %(agent)s::uuid, %(day)s::date, %(more)s::int where %(more)s::int <= %(most)s::int
on conflict (agent_id) do update
    set tasks = case d.day when excluded.day then d.tasks else 0 end + excluded.tasks,
        day = excluded.day
    where case d.day when excluded.day then d.tasks else 0 end + excluded.tasks <= %(most)s::int
returning tasks"""


def count_tasks(agent: Agent, more: int, *, now: datetime) -> None:
    """Count `more` tasks that the agent's own token creates now; raises RateLimited.

    Call it in the transaction that inserts the tasks: those of a refused call do not count. A day
    is a day in UTC.
    """
    most, now = settings.TENFOUR["AGENT_TASKS_PER_DAY"], now.astimezone(UTC)
    if not most or sql.run(COUNT, agent=agent.pk, day=now.date(), more=more, most=most):
        return
    RATE_LIMITED.labels("agent_tasks").inc()
    tomorrow = datetime.combine(now.date() + timedelta(days=1), time(), UTC)
    raise RateLimited(
        f"An agent's tokens can create at most {most} tasks a day. The day ends at midnight UTC.",
        hint="Create tasks with a producer's token, or raise TENFOUR_AGENT_TASKS_PER_DAY.",
        retry_after_s=max(1, round((tomorrow - now).total_seconds())),
    )
