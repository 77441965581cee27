"""Compute how long answers to escalations take, and in which phases."""

from datetime import datetime, timedelta
from typing import Any

from ledger.database import sql
from ledger.database.sql import Row
from ledger.models import Project
from ledger.states import TaskState
from retries.insight.figures.stored import MOST_GROUPS, store
from retries.insight.phases import (
    LEAST_ANSWERS,
    AnsweredCase,
    describe_answer_times,
    describe_cases,
)
from retries.insight.ranges import LONGEST_RANGE, RANGES

PANEL = "answers"
MOST_ANSWERS = 20_000

# A policy's default answer is no person's. An escalation without a recorded first view has no
# phases. A phase that has not ended yet lasts until now: as 0, it would be shortest when agents are
# down.
ANSWERED = f"""select e.reason, e.answered_by_name as person, p.name as policy,
    e.opened_at, e.seen_at, e.closed_at,
    case when n.id is not null then n.started_at when t.id is not null then %(now)s end
        as started_at,
    case when n.id is not null or t.id is not null then coalesce(n.ended_at, %(now)s) end
        as ended_at
from (select * from retries_escalation e
    where e.project_id = %(project)s and e.state = 'resolved' and e.closed_at >= %(since)s
        and e.channel <> 'policy' and (e.seen_at is not null or e.channel <> 'page')
    order by e.id desc limit {MOST_ANSWERS}) e
left join retries_escalationpolicy p on p.id = e.policy_id
left join lateral (
    select a.id, a.started_at, a.ended_at from ledger_attempt a
    where a.task_id = e.task_id and a.number > e.attempts order by a.number limit 1
) n on e.action in ('retry', 'fix', 'answer')
left join ledger_task t on n.id is null and t.id = e.task_id
    and e.action in ('retry', 'fix', 'answer')
    and t.state in ('{TaskState.QUEUED}', '{TaskState.RETRY}', '{TaskState.BLOCKED}')"""


def compute_answers(project: Project, *, now: datetime) -> None:
    since = now - timedelta(days=LONGEST_RANGE)
    rows = sql.run(ANSWERED, project=project.pk, since=since, now=now)
    for days in RANGES:
        since = now - timedelta(days=days)
        found = [row for row in rows if row["closed_at"] >= since]
        store(project, PANEL, days, describe_answers(found), now=now)


def describe_answers(rows: list[Row]) -> dict[str, Any]:
    reasons = [
        {"reason": reason} | describe_cases(cases) for reason, cases in group_cases(rows, "reason")
    ]
    everything = describe_cases([read_case(row) for row in rows])
    groups = {
        f"by_{name}": [
            {"name": key} | describe_answer_times(cases)
            for key, cases in group_cases(rows, name)[:MOST_GROUPS]
        ]
        for name in ("person", "policy")
    }
    return {"least": LEAST_ANSWERS, "all": everything, "reasons": reasons} | groups


def group_cases(rows: list[Row], name: str) -> list[tuple[str, list[AnsweredCase]]]:
    found: dict[str, list[AnsweredCase]] = {}
    for row in rows:
        if row[name]:
            found.setdefault(row[name], []).append(read_case(row))
    return sorted(found.items(), key=lambda pair: -len(pair[1]))


def read_case(row: Row) -> AnsweredCase:
    return AnsweredCase(
        row["opened_at"], row["seen_at"], row["closed_at"], row["started_at"], row["ended_at"]
    )
