"""Compute each day's finished work, from which the page adds up calendar weeks and months.

A day that is over keeps its figures when retention has removed its tasks.
"""

from datetime import UTC, datetime, time, timedelta
from typing import Any

from ledger.database import sql
from ledger.database.sql import Row
from ledger.models import Project
from ledger.states import Outcome, TaskState
from ledger.values.ids import SLACK, first_id
from retries.insight.figures.costs import MOST_ATTEMPTS, TOKENS
from retries.insight.figures.stored import store
from retries.insight.ranges import LONGEST_ATTEMPT
from retries.models import InsightFigure

PANEL = "days"
STORED_DAYS = 400
# A report that arrives late, or an answer that makes a task done, still changes yesterday.
OPEN_DAYS = 2
# The first run reads all of them, so many at a time.
DAYS_AT_ONCE = 30

# A task is done on the day of its successful attempt.
WORKED = f"""select to_char(a.ended_at at time zone 'UTC', 'YYYY-MM-DD') as day,
    count(*) as attempts, count(*) filter (where a.done) as done,
    count(*) filter (where a.done and a.number = 1) as first,
    count(*) filter (where a.done and a.proof = 'proven') as proven,
    coalesce(sum(a.tokens), 0)::int8 as tokens, sum(a.cost) as cost
from (
    select a.ended_at, a.number, t.proof,
        a.outcome = '{Outcome.SUCCESS}' and t.state = '{TaskState.DONE}' as done,
        {TOKENS} as tokens, (a.usage ->> 'cost_usd')::float8 as cost
    from ledger_agent g cross join lateral (
        select a.* from ledger_attempt a
        where a.agent_id = g.id and a.id >= %(floor)s and a.id < %(ceiling)s
        order by a.id desc limit {MOST_ATTEMPTS}
    ) a join ledger_task t on t.id = a.task_id
    where g.project_id = %(project)s and a.ended_at >= %(since)s and a.ended_at < %(until)s
) a group by 1"""


def compute_days(project: Project, *, now: datetime) -> None:
    # Days are ISO dates in UTC.
    earlier = InsightFigure.objects.filter(project=project, panel=PANEL).first()
    stored: dict[str, Any] = earlier.data if earlier else {"until": "", "days": {}}
    today = datetime.combine(now.astimezone(UTC).date(), time(), UTC)
    age = STORED_DAYS
    if stored["until"]:
        last = datetime.fromisoformat(stored["until"]).replace(tzinfo=UTC)
        age = min(age, (today - last).days + OPEN_DAYS - 1)
    since = today - timedelta(days=age)
    first = f"{today - timedelta(days=STORED_DAYS):%Y-%m-%d}"
    kept = {day: each for day, each in stored["days"].items() if first <= day < f"{since:%Y-%m-%d}"}
    found: dict[str, Row] = {}
    while since <= today:
        until = since + timedelta(days=DAYS_AT_ONCE)
        found |= count_days(project, since=since, until=until)
        since = until
    store(project, PANEL, 0, {"until": f"{today:%Y-%m-%d}", "days": kept | found}, now=now)


def count_days(project: Project, *, since: datetime, until: datetime) -> dict[str, Row]:
    rows = sql.run_custom_plan(
        WORKED,
        project=project.pk,
        since=since,
        until=until,
        floor=first_id(since - LONGEST_ATTEMPT - SLACK),
        ceiling=first_id(until + SLACK),
    )
    return {row.pop("day"): row for row in rows}
