"""Query what the page of a pool shows beside its figures."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from ledger.database import sql
from ledger.models import Agent
from ledger.pools import membership
from ledger.states import TaskState

SHOWN = 20
NAMES_SHOWN = 1_000
# the retries that are due first, as claims take them
QUEUE = f"""(select t.id, coalesce(nullif(t.title, ''), t.type) as title, t.ref, t.state,
    t.priority, t.attempts, coalesce(t.due_at, t.updated_at) as since, t.retry_on,
    (select a.name from ledger_attempt f join ledger_agent a on a.id = f.agent_id
        where f.task_id = t.id and f.number = t.attempts) as last_agent
from ledger_task t where t.agent_id = %(pool)s and t.state = '{TaskState.RETRY}'
order by t.due_at limit {SHOWN})
union all
(select t.id, coalesce(nullif(t.title, ''), t.type), t.ref, t.state, t.priority, t.attempts,
    t.updated_at, t.retry_on, (select a.name from ledger_attempt f
        join ledger_agent a on a.id = f.agent_id
        where f.task_id = t.id and f.number = t.attempts)
from ledger_task t where t.agent_id = %(pool)s and t.state = '{TaskState.QUEUED}'
order by t.priority desc, t.id limit {SHOWN})"""


@dataclass(frozen=True, slots=True)
class QueuedTask:
    """A task in the pool's queue."""

    id: UUID
    title: str
    ref: str | None
    state: str
    priority: int
    attempts: int
    since: datetime
    retry_on: str | None
    last_agent: str | None

    @property
    def is_retry(self) -> bool:
        return self.state == TaskState.RETRY


def list_queue(pool: Agent, *, now: datetime) -> list[QueuedTask]:
    return [QueuedTask(**row) for row in sql.run(QUEUE, pool=pool.pk)][:SHOWN]


def list_names(pool: Agent) -> list[tuple[str, bool]]:
    """Return the names that tasks of the pool's project can be sent to, and which are pools."""
    rows = Agent.objects.filter(project=pool.project_id, removed_at=None).order_by("name")
    return list(rows.values_list("name", "is_pool")[:NAMES_SHOWN])


def count_open(pool: Agent) -> int:
    return membership.count_open(pool)
