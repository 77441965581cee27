"""Claims: an agent asks for tasks and gets each with an attempt under a lease."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction

from ledger.database import server_time, sql
from ledger.database.process_counters import CLAIMS
from ledger.database.sql import Row
from ledger.errors import Invalid, InvalidTransition, NotFound, Refusal
from ledger.journal import Stamp
from ledger.models import Agent, Attempt
from ledger.models.budget import FOREVER
from ledger.moves import WAITING
from ledger.needs import fetch_skipped_needs
from ledger.secrets.notes import mask_key
from ledger.standing_instructions.firing import fire_claims
from ledger.states import TaskState, Who, allowed_moves
from ledger.tasks import fetch_task
from ledger.tasks.exclusive_files import find_holder
from ledger.tasks.lineage import invalid_transition
from ledger.tasks.spec import LEASE_S
from ledger.tokens import Caller, TrustedCaller, require_caller
from ledger.tracing.spans import start_span
from ledger.values.poll_waits import compute_poll_wait
from retries import breaker
from retries.breaker import CircuitBreakerOpen
from retries.claiming import pools
from retries.claiming.attempt_traces import trace_claim
from retries.claiming.blocking import BLOCK, UNBLOCK
from retries.claiming.statements import CLAIM, PENDING, POOL_CLAIM, POOL_WHY, WHY, Pick
from retries.decisions import AGENT_WAITS

MAX_TASKS = 50
WORKER_LENGTH = 128
MOST_PENDING = 100
AGENT_PAUSED = "agent_paused"
BREAKER_OPEN = "breaker_open"
CONCURRENCY_LIMIT = "concurrency_limit"
NO_TASK = "no_task"
BUDGET_USED = "budget_used"
TYPE_PAUSED = "type_paused"
# Moves of a task take milliseconds; only an import locks a plan's tasks for longer.
LOCKED_RETRY_S = 1


class PoolTask(Refusal):
    """The task was sent to a pool"""

    code = "pool_task"
    hint = "Let a member of the pool claim the task, or move it to one agent."


class ConcurrencyLimit(Refusal):
    """The agent runs as many attempts as it may"""

    code = "concurrency_limit"
    retryable = True
    hint = "Ask again when one of them has ended, or raise the agent's 'concurrency'."


class AgentWaits(Refusal):
    """The agent's account is at a limit"""

    code = "agent_waits"
    retryable = True
    hint = "Start the task again after 'retry_after_s' seconds."


class TaskLocked(Refusal):
    """The task is being changed"""

    code = "task_locked"
    retryable = True
    hint = "Nothing was changed. Start the task again after 'retry_after_s' seconds."


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """Tasks with their attempts, or the reason why there are none.

    A caller with a token also gets its `pending_instructions` (see `count_pending`) and the
    `system_text` that its agent's prompts begin with.
    """

    rows: list[Row] = field(default_factory=list)
    reason: str | None = None
    next_due_at: datetime | None = None
    waits_until: datetime | None = None
    retry_after_s: int = 0
    pending_instructions: int = 0
    system_text: str = ""


def claim(
    caller: Caller,
    *,
    worker_id: str = "",
    task: UUID | None = None,
    limit: int = 1,
    resume: bool | None = None,
    lease_s: int | None = None,
    now: datetime | None = None,
) -> ClaimResult:
    """Start up to `limit` of the caller's tasks; each has an attempt under a lease.

    With `resume` (the default for one task and a named worker) a worker gets its live attempts
    again. Raises InvalidTransition where `task` can't be started; an open breaker blocks that task
    instead, and the result is empty, as it is while another transaction holds that task's row. An
    agent never runs more attempts than its limit.
    """
    with start_span("tenfour.claim") as span:
        result = claim_untraced(
            caller,
            worker_id=worker_id,
            task=task,
            limit=limit,
            resume=resume,
            lease_s=lease_s,
            now=now or server_time.now(),
        )
        trace_claim(span, result.rows)
    CLAIMS.labels(count_as(result)).inc()
    return result


def claim_untraced(
    caller: Caller,
    *,
    worker_id: str,
    task: UUID | None,
    limit: int,
    resume: bool | None,
    lease_s: int | None,
    now: datetime,
) -> ClaimResult:
    request: dict[str, Any] = {
        "worker": check_worker(worker_id),
        "task": task,
        "limit": limit,
        "lease": check_lease(lease_s),
        "resume": bool(worker_id) and (limit == 1 if resume is None else resume),
        "limited": False,
        "ruled": False,
        "pooled": caller in pools.members,
        "held_types": None,
        "silent": timedelta(seconds=settings.TENFOUR["SILENT_AFTER_SECONDS"]),
        "now": now,
    }
    # One statement in the usual case: no rules, no limit of attempts, and a closed breaker.
    rows = take_tasks(caller, request, probe=False)
    if rows[0]["id"] is None and rows[0]["in_pools"] and not request["pooled"]:
        request["pooled"] = True
        rows = take_tasks(caller, request, probe=False)
    if rows[0]["id"] is None and rows[0]["paused_types"]:
        request["held_types"] = list(rows[0]["paused_types"])
        rows = take_tasks(caller, request, probe=False)
    if rows[0]["id"] is None and rows[0]["ruled"] and not is_stopped(rows[0]):
        return claim_with_rules(caller, request)
    return claim_past_gates(caller, request, rows)


def count_as(result: ClaimResult) -> str:
    if result.rows:
        return "resumed" if result.rows[0]["resumed"] else "claimed"
    return BREAKER_OPEN if result.reason == BREAKER_OPEN else "empty"


def claim_past_gates(caller: Caller, request: dict[str, Any], rows: list[Row]) -> ClaimResult:
    if rows[0]["id"] is None and rows[0]["concurrency"] and not is_stopped(rows[0]):
        return claim_within_limit(caller, request, rows[0])
    return resolve_claim(caller, request, rows)


def claim_with_rules(caller: Caller, request: dict[str, Any]) -> ClaimResult:
    # What the agent's rules for claims send belongs to the claim's transaction.
    with transaction.atomic():
        request = request | {"ruled": True}
        rows = take_tasks(caller, request, probe=False)
        result = claim_past_gates(caller, request, rows)
        opened = [row["attempt_id"] for row in result.rows if not row["resumed"]]
        sent = fire_claims(opened, caller=caller, now=request["now"]) if opened else []
        pending = min(result.pending_instructions + len(sent), MOST_PENDING)
        return replace(result, pending_instructions=pending)


def take_tasks(caller: Caller, request: dict[str, Any], *, probe: bool) -> list[Row]:
    """Return the tasks with their attempts, or one row without a task that says why not."""
    claims, why = (POOL_CLAIM, POOL_WHY) if request["pooled"] else (CLAIM, WHY)
    statement = claims[type(caller), pick_of(request), request["resume"]]
    rows = sql.run(statement, probe=probe, **request, **caller.params)
    if not rows:
        rows = sql.run(why[type(caller)], **request, **caller.params)
        if rows:
            pools.members.remember(caller, holds=bool(rows[0]["in_pools"]))
    require_caller(rows, caller, request["now"])
    add_skipped_needs(rows)
    return sorted(rows, key=urgency) if len(rows) > 1 else rows


def pick_of(request: dict[str, Any]) -> Pick:
    if request["task"]:
        return Pick.NAMED
    if request["limit"] == 1:  # the usual claim
        return Pick.NEXT_OR_OFFERED if request["worker"] else Pick.NEXT
    return Pick.SEVERAL_OR_OFFERED if request["worker"] else Pick.SEVERAL


def add_skipped_needs(rows: list[Row]) -> None:
    ids = [row["id"] for row in rows if row.get("need_ids")]
    # most tasks need no others, and the claim's own statement is faster without this
    skipped = fetch_skipped_needs(ids) if ids else {}
    for row in rows:
        row["skipped_needs"] = skipped.get(row["id"])


def urgency(row: Row) -> tuple[int, UUID]:
    return -row["priority"], row["attempt_id"]


def resolve_claim(caller: Caller, request: dict[str, Any], rows: list[Row]) -> ClaimResult:
    # The breaker is asked only if it is not closed.
    task, is_empty = request["task"], rows[0]["id"] is None and not is_stopped(rows[0])
    if is_empty and rows[0]["gate"]:
        return claim_past_breaker(caller, request, rows[0])
    if is_empty and task and not is_held(rows[0]):
        return locked_result(rows[0], task, now=request["now"])
    return result_of(rows, now=request["now"])


def claim_within_limit(caller: Caller, request: dict[str, Any], why: Row) -> ClaimResult:
    # The lock on the agent's row makes the agent's claims run one after the other.
    with transaction.atomic():
        room = lock_room(why["caller_agent"])
        if not room:
            wait = settings.TENFOUR["POLL_SECONDS"]
            return empty_result(why, CONCURRENCY_LIMIT, retry_after_s=wait)
        request = request | {"limited": True, "limit": min(request["limit"], room)}
        return resolve_claim(caller, request, take_tasks(caller, request, probe=False))


def lock_room(agent_id: UUID) -> int:
    """Lock the agent's row and return how many more attempts it may start now."""
    limits = Agent.objects.select_for_update(no_key=True).values_list("concurrency", flat=True)
    limit = limits.get(pk=agent_id)
    # The count is a statement of its own: the locking one would see the attempts as they were
    # before it waited.
    return MAX_TASKS if limit is None else max(0, limit - count_live(agent_id))


def count_live(agent_id: UUID) -> int:
    return Attempt.objects.filter(agent_id=agent_id, outcome=None).count()


def claim_past_breaker(caller: Caller, request: dict[str, Any], why: Row) -> ClaimResult:
    # Only the claim that gets the probe may start a task.
    now, task, agent_id = request["now"], request["task"], why["caller_agent"]
    with transaction.atomic():
        gate = breaker.check_gate(agent_id, now=now)
        if gate.open:
            if task:
                block_tasks([task], agent_id=agent_id, caller=caller, now=now)
            return empty_result(why, BREAKER_OPEN, retry_after_s=gate.retry_after_s)
        rows = take_tasks(caller, request | ({"limit": 1} if gate.probe else {}), probe=True)
        if gate.probe and rows[0]["id"] is not None and not rows[0]["resumed"]:
            breaker.take_probe(agent_id, rows[0]["attempt_id"], now=now)
        if task and rows[0]["id"] is None and not is_held(rows[0]):
            return locked_result(rows[0], task, now=now)
        return result_of(rows, now=now)


def result_of(rows: list[Row], *, now: datetime) -> ClaimResult:
    first = rows[0]
    if first["id"] is not None:
        return ClaimResult(
            rows,
            pending_instructions=first["pending_instructions"],
            system_text=first["system_text"],
        )
    due = next_due(first)
    # A running task can end, and free its files, at any time.
    wait = compute_poll_wait(0 if first["waits_for_files"] else first["idle_s"])
    if (until := first["waits_until"]) and not first["paused"]:
        wait = math.ceil((until - now).total_seconds())
    elif due is not None:
        wait = max(1, min(wait, math.ceil((due - now).total_seconds())))
    return empty_result(first, empty_reason(first), retry_after_s=wait)


def empty_result(why: Row, reason: str, *, retry_after_s: int) -> ClaimResult:
    return ClaimResult(
        reason=reason,
        next_due_at=next_due(why),
        waits_until=why["waits_until"] or end_of_day(why, reason),
        retry_after_s=retry_after_s,
        pending_instructions=why["pending_instructions"],
    )


def end_of_day(why: Row, reason: str) -> datetime | None:
    # A budget that is not per day has room only after a person gave it some.
    until: datetime | None = why["spent_until"] if reason == BUDGET_USED else None
    return until if until and until < FOREVER else None


def next_due(why: Row) -> datetime | None:
    return min(filter(None, (why["next_due_at"], why["next_start_at"])), default=None)


def empty_reason(why: Row) -> str:
    if why["paused"]:
        return AGENT_PAUSED
    if why["waits_until"]:
        return AGENT_WAITS
    if why["spent_until"]:
        return BUDGET_USED
    return "plan_paused" if why["plan_paused"] else TYPE_PAUSED if why["type_paused"] else NO_TASK


def is_held(why: Row) -> bool:
    return bool(why["plan_paused"] or why["type_paused"])


def is_stopped(why: Row) -> bool:
    # A person has paused the agent, or it waits for a limit.
    return bool(why["paused"] or why["waits_until"])


def count_pending(agent: Agent) -> int:
    count: int = sql.run(PENDING, agent=agent.pk)[0]["pending_instructions"]
    return count


def locked_result(why: Row, task: UUID, *, now: datetime) -> ClaimResult:
    """Return the empty result for a startable task whose row is locked; else raise the reason."""
    # A claim does not wait for the row: whatever holds it, such as an import of its plan, could
    # wait for rows that the claim holds.
    row, caller_agent = fetch_task(task), why["caller_agent"]
    check_member(row, caller_agent)
    is_due = row["state"] == TaskState.RETRY and row["due_at"] <= now
    if (start := why["next_start_at"]) and start > now:
        noun = "task" if row["blocked_reason"] else "task's plan"
        raise held_back(row, f"The {noun} starts at {start:%FT%TZ}, and not before.")
    if why["spent_until"] and row["state"] in WAITING:
        raise held_back(row, "The task waits for a budget that is used up.")
    if row["state"] == TaskState.QUEUED or is_due or start:
        if holder := find_holder(task):
            name = holder["ref"] or holder["id"]
            raise held_back(row, f"The task waits for {name}, which has some of the same files.")
        if row["agent_id"] == row["pool_id"] and pools.find_last_failed(task) == caller_agent:
            name = row["agent_name"]
            raise held_back(row, f"The task waits for another member of the pool {name}.")
        return empty_result(why, NO_TASK, retry_after_s=LOCKED_RETRY_S)
    if row["state"] == TaskState.RETRY:
        raise held_back(row, f"The task will be retried at {row['due_at']:%FT%TZ}, and not before.")
    raise invalid_transition(row, TaskState.RUNNING, Who.AGENT)


def check_member(row: Row, agent_id: UUID) -> None:
    """Raise NotFound if the task is of no queue of the agent, and the reason if it is paused."""
    pool = Agent.objects.filter(pk=row["pool_id"], member_seats__agent=agent_id).first()
    if row["agent_id"] not in (agent_id, pool and pool.pk):
        raise NotFound(f"There is no task {row['id']}.")
    if pool and pool.paused and row["state"] in WAITING:
        raise held_back(row, f"The pool {pool.name} is paused.")


def held_back(row: Row, detail: str) -> InvalidTransition:
    allowed = allowed_moves(row["state"], Who.AGENT, blocked_reason=row["blocked_reason"])
    return InvalidTransition(detail, current=row["state"], allowed=allowed)


def check_worker(worker_id: str) -> str:
    if len(worker_id) > WORKER_LENGTH or not worker_id.isprintable():
        raise Invalid(
            "/worker_id", f"A worker's id has at most {WORKER_LENGTH} printable characters."
        )
    return mask_key(worker_id, limit=WORKER_LENGTH)


def check_lease(lease_s: int | None) -> int | None:
    if lease_s is not None and not LEASE_S[0] <= lease_s <= LEASE_S[1]:
        raise Invalid("/lease_s", f"lease_s is a number from {LEASE_S[0]} to {LEASE_S[1]}.")
    return lease_s


# ---- tasks that an open breaker or their time blocks


def block_tasks(ids: Iterable[UUID], *, agent_id: UUID, caller: Caller, now: datetime) -> None:
    sql.run(BLOCK[type(caller)], ids=list(ids), for_agent=agent_id, now=now, **caller.params)


def unblock_tasks(*, stamp: Stamp) -> int:
    known = TrustedCaller(stamp.actor).params
    return sum(len(sql.run(statement, now=stamp.at, **known)) for statement in UNBLOCK)


# ---- by a task's id


def start(task_id: UUID, *, stamp: Stamp, worker_id: str = "") -> UUID:
    """Start one task for its agent and return the attempt's id.

    Raises InvalidTransition, ConcurrencyLimit, TaskLocked, and CircuitBreakerOpen after blocking
    the task.
    """
    agent = Agent.objects.filter(task__pk=task_id).first()
    if agent is None:
        raise NotFound(f"There is no task {task_id}.")
    if agent.is_pool:
        raise PoolTask(f"The task waits for a member of the pool {agent.name}.")
    result = claim(
        TrustedCaller(stamp.actor, agent=agent), task=task_id, worker_id=worker_id, now=stamp.at
    )
    return require_attempt(result, agent.name, task_id)


def require_attempt(result: ClaimResult, agent_name: str, task_id: UUID) -> UUID:
    """Return the attempt that a claim of this task opened; raise the reason if there is none."""
    if result.reason == BREAKER_OPEN:
        raise CircuitBreakerOpen(agent_name, retry_after_s=result.retry_after_s)
    if result.reason == CONCURRENCY_LIMIT:
        raise ConcurrencyLimit(
            f"The agent {agent_name} already runs as many attempts at once as it may.",
            retry_after_s=result.retry_after_s,
        )
    if result.reason == AGENT_WAITS:
        raise AgentWaits(
            f"The agent {agent_name} waits for a limit until {result.waits_until:%FT%TZ}.",
            retry_after_s=result.retry_after_s,
        )
    if result.reason == NO_TASK:
        raise TaskLocked("The task is being changed.", retry_after_s=result.retry_after_s)
    if not result.rows:
        raise paused_error(task_id, result.reason)
    attempt_id: UUID = result.rows[0]["attempt_id"]
    return attempt_id


def paused_error(task_id: UUID, reason: str | None) -> InvalidTransition:
    row = fetch_task(task_id)
    own = {AGENT_PAUSED: f"The agent {row['agent_name']}", TYPE_PAUSED: f"The type {row['type']}"}
    paused = own.get(reason or "", "The task's plan")
    return InvalidTransition(
        f"{paused} is paused: the task can't be started until it is resumed.",
        current=row["state"],
        allowed=allowed_moves(row["state"], Who.AGENT),
    )
