"""Figures of pools: what waits and runs, and whether each member has room."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from ledger.database import sql
from ledger.states import BreakerState, TaskState

COUNTED = 1_000  # waiting tasks of each kind
HEAD = 100  # of a queue, where the task that waits longest is looked for
MOST_DONE = 10_000
PACE = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Member:
    """A member with what decides whether it may claim now."""

    pool_id: UUID
    id: UUID
    name: str
    paused: bool
    concurrency: int | None
    running: int
    breaker: str
    waits_until: datetime | None
    last_seen_at: datetime | None

    def find_hold(self, now: datetime, *, silent: timedelta) -> str:
        """Return why it claims nothing now, in one word; empty if it has room."""
        if self.paused:
            return "paused"
        if self.waits_until and self.waits_until > now:
            return "at_limit"
        if self.breaker == BreakerState.OPEN:
            return "breaker_open"
        if self.concurrency is not None and self.running >= self.concurrency:
            return "full"
        if not self.running and (self.last_seen_at is None or now - self.last_seen_at > silent):
            return "silent"
        return ""


@dataclass(slots=True)
class PoolFigures:
    """Counts stop at COUNTED, and that of done tasks at MOST_DONE."""

    queued: int = 0
    retries: int = 0
    running: int = 0
    done: int = 0  # in the last day
    oldest_at: datetime | None = None  # since when the first tasks of the queue wait
    members: list[Member] = field(default_factory=list)


# Each count walks one index for each pool. What runs is found by the members' live attempts, as
# no index tells a pool's running tasks from those that wait.
COUNTS = f"""select p.id,
    (select count(*) from (select from ledger_task t
        where t.agent_id = p.id and t.state = '{TaskState.QUEUED}' limit {COUNTED}) n) as queued,
    (select count(*) from (select from ledger_task t
        where t.agent_id = p.id and t.state = '{TaskState.RETRY}' limit {COUNTED}) n) as retries,
    least(
        (select min(h.updated_at) from (select t.updated_at from ledger_task t
            where t.agent_id = p.id and t.state = '{TaskState.QUEUED}'
            order by t.priority desc, t.id limit {HEAD}) h),
        (select t.due_at from ledger_task t
            where t.agent_id = p.id and t.state = '{TaskState.RETRY}' and t.due_at <= %(now)s
            order by t.due_at limit 1)) as oldest_at,
    (select count(*) from ledger_poolmember m
        join ledger_attempt a on a.agent_id = m.agent_id and a.outcome is null
        join ledger_task t on t.id = a.task_id and t.pool_id = p.id
        where m.pool_id = p.id) as running,
    (select count(*) from (select from ledger_task t
        where t.pool_id = p.id and t.completed_at > %(since)s and t.state = '{TaskState.DONE}'
        limit {MOST_DONE}) n) as done
from unnest(%(pools)s::uuid[]) p(id)"""
MEMBERS = f"""select m.pool_id, a.id, a.name, a.paused, a.concurrency, a.waits_until,
    a.last_seen_at, coalesce(b.state, '{BreakerState.CLOSED}') as breaker,
    (select count(*) from ledger_attempt l
        where l.agent_id = a.id and l.outcome is null) as running
from ledger_poolmember m join ledger_agent a on a.id = m.agent_id
    left join ledger_breaker b on b.agent_id = a.id
where m.pool_id = any(%(pools)s) order by a.name, a.id"""


def read_figures(pool_ids: Collection[UUID], *, now: datetime) -> dict[UUID, PoolFigures]:
    ids = list(pool_ids)
    if not ids:
        return {}
    members: dict[UUID, list[Member]] = defaultdict(list)
    for row in sql.run(MEMBERS, pools=ids):
        members[row["pool_id"]].append(Member(**row))
    counts = sql.run(COUNTS, pools=ids, now=now, since=now - PACE)
    return {
        row["id"]: PoolFigures(
            queued=row["queued"],
            retries=row["retries"],
            running=row["running"],
            done=row["done"],
            oldest_at=row["oldest_at"],
            members=members[row["id"]],
        )
        for row in counts
    }
