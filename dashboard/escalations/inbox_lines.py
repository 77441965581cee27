"""Read the lines of the inbox that a page shows."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from dashboard.escalations.queries import SNIPPET
from ledger import sql
from ledger.sql import quoted
from ledger.states import FINAL

LINES = f"""select e.id, e.version, e.reason, e.opened_at, t.ref, i.deliveries, f.type as failed_by,
    a.name as agent_name, j.name as project, u.username as assignee_name, w.n as waiting,
    left(coalesce(nullif(t.title, ''), t.type, i.content), {SNIPPET}) as title,
    left(e.question, {SNIPPET}) as question, left(f.message, {SNIPPET}) as error
from unnest(%(ids)s::uuid[]) wanted(id) join retries_escalation e on e.id = wanted.id
join ledger_agent a on a.id = e.agent_id
join ledger_project j on j.id = e.project_id
left join auth_user u on u.id = e.assignee_id
left join ledger_task t on t.id = e.task_id
left join ledger_instruction i on i.id = e.instruction_id
left join lateral (
    select type, message from ledger_failure where task_id = e.task_id order by id desc limit 1
) f on e.task_id is not null
cross join lateral (
    select count(*) as n from ledger_need d join ledger_task k on k.id = d.task_id
    where d.need_id = e.task_id and t.needed_by > 0 and k.state not in ({quoted(FINAL)})
) w"""


def fetch_lines(ids: Iterable[UUID]) -> dict[UUID, dict[str, Any]]:
    """Return what the lines of escalations show, by id."""
    wanted = list(ids)
    rows = sql.run(LINES, ids=wanted) if wanted else []
    return {row["id"]: row for row in rows}
