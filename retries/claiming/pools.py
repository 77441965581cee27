"""The SQL of a claim by a member of pools: its own queue and those of its pools, as one queue."""

from uuid import UUID

from ledger.database import sql
from ledger.states import Outcome, RetryOn
from retries.claiming.caller_memory import CallerMemory

# A task is kept from the agent that failed it no longer than this after it could be retried.
MOST_WITHHELD = "interval '1 hour'"
# so many tasks of a queue that other claims hold are passed over to take the best of all queues
PASSED_OVER = 16


def queues(agent: str) -> str:
    """Return the CTE of the queues that an agent claims from: its own, and those of its pools."""
    return f"""queues as materialized (
        select {agent} as queue
        union all
        select s.pool_id from ledger_poolmember s join ledger_agent p on p.id = s.pool_id
        where s.agent_id = {agent} and not p.paused
    ), """


FIND_LAST_FAILED = f"""select (select f.agent_id from ledger_attempt f
    where f.task_id = t.id and f.outcome = '{Outcome.FAILURE}'
    order by f.number desc limit 1) as agent_id
from ledger_task t where t.id = %(task)s and t.retry_on = '{RetryOn.OTHER}'"""


def find_last_failed(task_id: UUID) -> UUID | None:
    """Return the agent whose attempt at the task failed last, if another one should retry it."""
    rows = sql.run(FIND_LAST_FAILED, task=task_id)
    found: UUID | None = rows[0]["agent_id"] if rows else None
    return found


def may_retry(agent: str, task: str = "ledger_task") -> str:
    """Return the condition that no other member of a task's pool should retry it."""
    # Few tasks get past the first comparisons. What the function reads would slow down each claim
    # as a part of its statement, although it is seldom read.
    return f"""({task}.retry_on is distinct from '{RetryOn.OTHER}' or {task}.pool_id is null
                or {task}.attempts = 0
                or coalesce({task}.due_at, {task}.updated_at) < %(now)s - {MOST_WITHHELD}
                or not ledger_kept_for_other_member({task}.id, {task}.pool_id, {agent},
                    %(now)s, %(silent)s))"""


def pool_runs(task: str) -> str:
    """Return the condition that the pool of a retry that waits for one member is not paused."""
    return f"""({task}.retry_on is distinct from '{RetryOn.SAME}' or {task}.pool_id is null
                or {task}.pool_id in (select queue from queues))"""


def may_take(agent: str, task: str = "ledger_task") -> str:
    return f"{pool_runs(task)} and {may_retry(agent, task)}"


def pick_from_queues(*, where: str, order: str, columns: str, limit: str = "1") -> str:
    """Return the FROM clause of the first tasks `found` of all queues, which it locks.

    `where` is the condition and `order` the order within a queue, over `columns`.
    """
    # The heads are compared before any is locked: a lock on the head of each queue would hide the
    # heads from other claims. The best queue's head may be taken by then; its next task follows.
    first = f"""select id, {columns} from ledger_task
                where {where} and agent_id = """
    return f"""from (
                select q.queue from queues q cross join lateral (
                    {first}q.queue order by {order} limit 1
                ) h order by {order} offset 0
            ) best cross join lateral (
                {first}best.queue order by {order} limit {limit} for update skip locked
            ) found limit {limit}"""


def pick_best_of_queues(*, where: str, order: str, columns: str, limit: str) -> str:
    """Return the query of the first tasks of all queues, each of which it locks, best first."""
    of_queue = f"""select id, {columns} from ledger_task where agent_id = q.queue and {where}
                    order by {order} limit {limit} + {PASSED_OVER}"""
    return f"""select found.* from (
                select h.* from queues q cross join lateral ({of_queue}) h
                order by {order} limit {limit} + {PASSED_OVER}
            ) best cross join lateral (
                select id, {columns} from ledger_task where id = best.id and {where}
                for update skip locked
            ) found limit {limit}"""


# Few agents are in pools, and the statement that looks at them takes longer.
members = CallerMemory()
