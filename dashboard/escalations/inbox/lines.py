"""Read the lines of the inbox that a page shows."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from dashboard.escalations.queries import SNIPPET
from dashboard.question_lines import FAILURE_TEXTS, waiting_for
from ledger.database import sql

# a lookup with a limit runs row by row: no query plan reads a whole table for it
LINES = f"""select e.id, e.version, e.reason, e.opened_at, t.ref, i.deliveries, f.type as failed_by,
    a.name as agent_name, j.name as project, u.username as assignee_name, w.n as waiting,
    case when e.policy_id is not null then e.next_step_at end as held_until,
    coalesce(e.answer_due_at <= %(now)s, false) as is_overdue,
    left(coalesce(
        case when e.response_schema is null then p.title else e.question end,
        nullif(t.title, ''), t.type, i.content), {SNIPPET}) as title,
    p.tool, p.more_lines, extract(epoch from e.expires_at - %(now)s) as seconds_left,
    left(e.question, {SNIPPET}) as question, {FAILURE_TEXTS}
from unnest(%(ids)s::uuid[]) wanted(id) join retries_escalation e on e.id = wanted.id
join ledger_agent a on a.id = e.agent_id
join ledger_project j on j.id = e.project_id
left join auth_user u on u.id = e.assignee_id
left join lateral (
    select title, tool, task_id,
        regexp_count(btrim(coalesce(input ->> 'command', input ->> 'cmd'), E' \\n'), E'\n')
            as more_lines
    from retries_permissionrequest where id = e.permission_id limit 1
) p on e.permission_id is not null
left join lateral (
    select ref, title, type, needed_by from ledger_task
    where id = coalesce(e.task_id, p.task_id) limit 1
) t on true
left join lateral (
    select content, deliveries from ledger_instruction where id = e.instruction_id limit 1
) i on true
left join lateral (
    select type, message, details, verification, telling_lines from ledger_failure
    where task_id = e.task_id order by id desc limit 1
) f on e.task_id is not null
cross join lateral (
    select count(*) as n {waiting_for("e.task_id")} and t.needed_by > 0
) w"""


def fetch_lines(ids: Iterable[UUID], *, now: datetime) -> dict[UUID, dict[str, Any]]:
    wanted = list(ids)
    rows = sql.run(LINES, ids=wanted, now=now) if wanted else []
    return {row["id"]: row for row in rows}
