"""Queries of the Limits page: what waits while agents are at a limit."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from ledger.accounts import ACCOUNT_NAME
from ledger.database import sql
from ledger.models import Project
from ledger.states import TaskState

# Of each agent as many tasks are counted, and of so many agents.
COUNTED, AGENTS = 1_000, 100
SHOWN = 20
WAITING = f"""waiting as (
    select a.id, a.project_id, {ACCOUNT_NAME} as account, a.waits_until
    from ledger_agent a
    where a.waits_until > %(now)s and not a.paused
        and (%(project)s::uuid is null or a.project_id = %(project)s)
    order by a.waits_until, a.id limit {AGENTS}
)"""
# Each list of an agent has its index, which the order makes PostgreSQL use.
COUNTS = f"""with {WAITING} select w.project_id, w.account, max(w.waits_until) as until,
    sum(n.tasks)::int as tasks,
    bool_or(n.tasks = {COUNTED}) or sum(count(*)) over () = {AGENTS} as is_cut
from waiting w cross join lateral (
    select count(*) as tasks from (
        (select from ledger_task t where t.agent_id = w.id and t.state = '{TaskState.QUEUED}'
            order by t.priority desc, t.id limit {COUNTED})
        union all
        (select from ledger_task t where t.agent_id = w.id and t.state = '{TaskState.RETRY}'
            order by t.due_at limit {COUNTED})
    ) t
) n group by 1, 2 order by 3, 2"""
TASKS = f"""with {WAITING} select t.id, coalesce(nullif(t.title, ''), t.type) as title, w.account,
    p.ref as plan_ref, p.id as plan_id, greatest(w.waits_until, t.due_at, t.not_before) as starts_at
from waiting w cross join lateral (
    (select * from ledger_task t where t.agent_id = w.id and t.state = '{TaskState.QUEUED}'
        order by t.priority desc, t.id limit {SHOWN})
    union all
    (select * from ledger_task t where t.agent_id = w.id and t.state = '{TaskState.RETRY}'
        order by t.due_at limit {SHOWN})
) t left join ledger_plan p on p.id = t.plan_id
order by starts_at, t.priority desc, t.id limit {SHOWN}"""


@dataclass(frozen=True, slots=True)
class Wait:
    """How many tasks wait for an account's agents, and until when.

    An agent waits for its account's reset, or for a limit of its own, such as one of requests.
    """

    project_id: UUID
    account: str
    until: datetime
    tasks: int
    is_cut: bool  # there may be more tasks than are counted


@dataclass(frozen=True, slots=True)
class WaitingTask:
    """A task whose agent waits for a limit."""

    id: UUID
    title: str
    account: str
    plan_ref: str | None
    plan_id: UUID | None
    starts_at: datetime


def list_waits(project: Project | None, *, now: datetime) -> list[Wait]:
    """Return the accounts whose agents wait, the first whose waits end first."""
    return [Wait(**row) for row in sql.run(COUNTS, project=project and project.pk, now=now)]


def list_waiting_tasks(project: Project | None, *, now: datetime) -> list[WaitingTask]:
    return [WaitingTask(**row) for row in sql.run(TASKS, project=project and project.pk, now=now)]
