"""Handing out work: the gate, then the move; one statement while the agent's breaker is closed."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from ledger import journal, moves, sql
from ledger.errors import Invalid, InvalidTransition, NotFound, Refusal
from ledger.instructions import answered
from ledger.journal import SYSTEM, Actor, Kind
from ledger.models import Agent, Attempt
from ledger.moves import task_to
from ledger.sql import Row
from ledger.states import BlockedReason, TaskState, Who, allowed_moves
from ledger.tasks import fetch_task
from ledger.tasks.lineage import invalid_transition
from ledger.tasks.spec import LEASE_S
from ledger.tokens import Bearer, Caller, Statements, TrustedCaller
from retries import breaker
from retries.breaker import HOLDS_BACK, CircuitBreakerOpen

MOST = 50
WORKER_LENGTH = 128
AGENT_PAUSED = "agent_paused"


class ConcurrencyLimit(Refusal):
    """The agent runs as many attempts as it may"""

    code = "concurrency_limit"
    retryable = True
    hint = "Ask again when one of them has ended, or raise the agent's 'concurrency'."


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a claim got: rows of tasks with their attempt, or why there was none.

    For who calls with a token there are also `pending_instructions`, counted to 100 (see
    `pending`), and the `system_text` that their agent's prompts begin with.
    """

    rows: list[Row] = field(default_factory=list)
    reason: str | None = None
    next_due_at: datetime | None = None
    retry_after_s: int = 0
    pending_instructions: int = 0
    system_text: str = ""


# an attempt's columns beside those of its task: of one that a claim `m` opens, and of one held
LEASE = "coalesce(%(lease)s, {0}.lease_s)"
OPENED = {
    "id": "m.current_attempt",
    "number": "m.attempts",
    "worker_id": "%(worker)s::text",
    "started_at": "%(now)s::timestamptz",
    "lease_s": LEASE.format("m"),
    "lease_expires_at": f"%(now)s + {LEASE.format('m')} * interval '1 second'",
    "deadline_at": "%(now)s + m.timeout_s * interval '1 second'",
}
FRESH = ", ".join(f"{value} as attempt_{name}" for name, value in OPENED.items())
KEPT = ", ".join(f"h.{name} as attempt_{name}" for name in OPENED)

WAITS = """(select count(*) from (select from ledger_instruction i where i.agent_id = c.agent_id
            and i.state = 'queued' limit 100) i) as pending_instructions"""
BRIEF = "(select a.system_text from ledger_agent a where a.id = c.agent_id) as system_text"
START = task_to(
    TaskState.RUNNING,
    where="t.id = any(array(select id from picked))",
    sets="current_attempt = uuidv7()",
)
HELD = f"""held as (
        update ledger_attempt a set heartbeat_at = %(now)s,
            lease_expires_at = greatest(a.lease_expires_at,
                %(now)s + {LEASE.format("a")} * interval '1 second')
        where a.agent_id = (select agent_id from caller) and a.outcome is null
            and a.worker_id = %(worker)s and (%(task)s::uuid is null or a.task_id = %(task)s)
        returning a.*
    ), """
# A look at one row each: as 'not exists' in an 'or' they would read all plans, and all breakers.
GOES = "(plan_id is null or (select p.paused_at from ledger_plan p where p.id = plan_id) is null)"
CALM = f"""(%(probe)s or (select b.state from ledger_breaker b
                where b.agent_id = a.id and {HOLDS_BACK}) is null)"""
ROOM = "(select %(limit)s::int)"


def best(*, room: str = ROOM, but_for: str = "", with_them: str = "{0}") -> str:
    """The head of the queue, and the retry that is longest due.

    The latter goes first where its priority is at least as high. Two short index walks, however
    deep the queue is.
    """
    found = f"""select id from (
            select id, priority, due_at from due union all select id, priority, null from queued
        ) found order by priority desc, due_at nulls last, id limit {room}"""
    return f"""queued as materialized (
        select id, priority from ledger_task
        where agent_id = (select id from free) and state = '{TaskState.QUEUED}' and {GOES}{but_for}
        order by priority desc, id limit {room} for update skip locked
    ), due as materialized (
        select id, priority, due_at from ledger_task
        where agent_id = (select id from free) and state = '{TaskState.RETRY}' and due_at <= %(now)s
            and {GOES}{but_for}
        order by due_at limit {room} for update skip locked
    ), picked as materialized (
        {with_them.format(found)}
    )"""


BEST = best()
# What a person has answered goes first to the worker that had it last, if that one is asking: as
# long as nobody has begun it since, through the same gates. Nobody else is kept from it.
OFFERED = f"""offered as materialized (
        select t.id from retries_escalation e join ledger_task t on t.id = e.task_id
        where e.agent_id = (select id from free) and e.offered_to = %(worker)s
            and t.agent_id = e.agent_id and t.attempts = e.attempts and {GOES}
            and (t.state = '{TaskState.QUEUED}'
                or t.state = '{TaskState.RETRY}' and t.due_at <= %(now)s)
        order by t.priority desc, t.id limit {ROOM} for update of t skip locked
    ), """ + best(
    room="(select %(limit)s::int - count(*) from offered)",
    but_for=" and id <> all(array(select id from offered))",
    with_them="select id from offered union all ({0})",
)
NAMED = f"""picked as materialized (
        select id from ledger_task
        where id = %(task)s and agent_id = (select id from free) and {GOES}
            and (state = '{TaskState.QUEUED}' or state = '{TaskState.RETRY}' and due_at <= %(now)s)
        for update skip locked
    )"""


def claim_statement(caller: type[Caller], pick: str, *, resume: bool) -> str:
    """Give a worker what it holds already, or take what comes next; no row where it is nothing.

    `pick` is NAMED, BEST or OFFERED. Rows that another claim looks at are passed over.
    """
    told = (
        f"{WAITS}, {BRIEF}" if caller is Bearer else "0 as pending_instructions, '' as system_text"
    )
    kept = f"""union all
    select {moves.task_columns("t")}, {KEPT}, true as resumed, c.agent_name, c.unseen, {told}
    from held h join ledger_task t on t.id = h.task_id, caller c"""
    return f"""with {caller.cte}, {HELD if resume else ""}free as (
        select a.id from ledger_agent a where a.id = (select agent_id from caller) and not a.paused
            {"and not exists (select from held)" if resume else ""}
            and (%(rationed)s or a.concurrency is null) and {CALM}
    ), {pick}, moved as ({START}), opened as (
        insert into ledger_attempt (task_id, agent_id, {", ".join(OPENED)})
        select m.id, m.agent_id, {", ".join(OPENED.values())} from moved m
    ), journalled as ({
        journal.insert(
            "moved",
            kind=f"'{Kind.TASK_CLAIMED}'",
            subject="task",
            data="jsonb_build_object('attempt', m.attempts)",
            id="m.current_attempt",
        )
    })
    select {moves.task_columns("m")}, {FRESH}, false as resumed, c.agent_name, c.unseen, {told}
    from moved m, caller c {kept if resume else ""}"""


def why_statement(caller: type[Caller]) -> str:
    """What speaks against a claim that came back empty; no row where there is no such caller."""
    return f"""with {caller.cte}
    select null::uuid as id, c.agent_id as caller_agent, c.agent_name, c.unseen,
        (select paused from ledger_agent a where a.id = c.agent_id) as paused,
        (select concurrency from ledger_agent a where a.id = c.agent_id) as concurrency,
        (select state from ledger_breaker b
            where b.agent_id = c.agent_id and {HOLDS_BACK}) as gate,
        exists (select from ledger_task t join ledger_plan p on p.id = t.plan_id
            where t.agent_id = c.agent_id and t.state in ('{TaskState.QUEUED}', '{TaskState.RETRY}')
                and (%(task)s::uuid is null or t.id = %(task)s)
                and p.paused_at is not null) as plan_paused,
        (select min(due_at) from ledger_task t
            where t.agent_id = c.agent_id and t.state = '{TaskState.RETRY}' and {GOES}
        ) as next_due_at,
        {WAITS if caller is Bearer else "0 as pending_instructions"}
    from caller c where c.agent_id is not null"""


CLAIM: dict[tuple[type[Caller], str, bool], str] = {
    (caller, pick, resume): claim_statement(caller, pick, resume=resume)
    for caller in (Bearer, TrustedCaller)
    for pick in (NAMED, BEST, OFFERED)
    for resume in (False, True)
}
WHY: Statements = {caller: why_statement(caller) for caller in (Bearer, TrustedCaller)}


def claim(
    caller: Caller,
    *,
    worker_id: str = "",
    task: UUID | None = None,
    limit: int = 1,
    resume: bool | None = None,
    lease_s: int | None = None,
    now: datetime | None = None,
) -> Claimed:
    """Start up to `limit` of the caller's tasks; each has an attempt under a lease.

    With `resume` (the default for one task and a named worker) a worker that still holds an attempt
    gets that one back. A task asked for by name that can't be started raises InvalidTransition;
    while the breaker is open it is blocked instead, and the answer is empty. An agent with a limit
    of attempts never runs more at once.
    """
    now = now or timezone.now()
    asked: dict[str, Any] = {
        "worker": check_worker(worker_id),
        "task": task,
        "limit": limit,
        "lease": check_lease(lease_s),
        "resume": bool(worker_id) and (limit == 1 if resume is None else resume),
        "rationed": False,
        "now": now,
    }
    rows = taken(caller, asked, probe=False)
    if rows[0]["id"] is None and rows[0]["concurrency"] and not rows[0]["paused"]:
        return rationed(caller, asked, rows[0])
    return come_of(caller, asked, rows)


def taken(caller: Caller, asked: dict[str, Any], *, probe: bool) -> list[Row]:
    """The tasks with their attempts; where nothing was taken, one row without a task says why."""
    now: datetime = asked["now"]
    pick = NAMED if asked["task"] else OFFERED if asked["worker"] else BEST
    rows = sql.run(
        CLAIM[type(caller), pick, asked["resume"]], probe=probe, **asked, **caller.params
    )
    if not rows:
        rows = sql.run(WHY[type(caller)], **asked, **caller.params)
    answered(rows, caller, now)
    return sorted(rows, key=urgency) if len(rows) > 1 else rows


def urgency(row: Row) -> tuple[int, UUID]:
    return -row["priority"], row["attempt_id"]


def come_of(caller: Caller, asked: dict[str, Any], rows: list[Row]) -> Claimed:
    """What a claim got in the end, a breaker that is not closed having been asked."""
    task, nothing = asked["task"], rows[0]["id"] is None and not rows[0]["paused"]
    if nothing and rows[0]["gate"]:
        return probed(caller, asked, rows[0])
    if nothing and task and not rows[0]["plan_paused"]:
        refuse_named(task, rows[0]["caller_agent"])
    return claimed(rows, now=asked["now"])


def rationed(caller: Caller, asked: dict[str, Any], seen: Row) -> Claimed:
    """A claim for an agent with a limit: its claims come one after the other."""
    with transaction.atomic():
        room = room_of(seen["caller_agent"])
        if not room:
            return none(seen, "concurrency_limit", retry_after_s=settings.TENFOUR["POLL_SECONDS"])
        asked = asked | {"rationed": True, "limit": min(asked["limit"], room)}
        return come_of(caller, asked, taken(caller, asked, probe=False))


def room_of(agent_id: UUID) -> int:
    """How many attempts the agent may start now; holds its row to the end of the transaction."""
    most = Agent.objects.select_for_update(no_key=True).values_list("concurrency", flat=True)
    limit = most.get(pk=agent_id)
    # Not part of the statement that locks: having waited, that one would count as of before.
    return MOST if limit is None else max(0, limit - live(agent_id))


def live(agent_id: UUID) -> int:
    return Attempt.objects.filter(agent_id=agent_id, outcome=None).count()


def probed(caller: Caller, asked: dict[str, Any], seen: Row) -> Claimed:
    """A claim while the breaker is not closed: the one that gets the probe's slot may start."""
    now, task, agent_id = asked["now"], asked["task"], seen["caller_agent"]
    with transaction.atomic():
        gate = breaker.gate(agent_id, now=now)
        if gate.open:
            if task:
                block([task], agent_id=agent_id, caller=caller, now=now)
            return none(seen, "breaker_open", retry_after_s=gate.retry_after_s)
        rows = taken(caller, asked | ({"limit": 1} if gate.probe else {}), probe=True)
        if gate.probe and rows[0]["id"] is not None and not rows[0]["resumed"]:
            breaker.take_probe(agent_id, rows[0]["attempt_id"], now=now)
        if task and rows[0]["id"] is None and not rows[0]["plan_paused"]:
            refuse_named(task, agent_id)
        return claimed(rows, now=now)


def claimed(rows: list[Row], *, now: datetime) -> Claimed:
    first = rows[0]
    if first["id"] is not None:
        waiting, brief = first["pending_instructions"], first["system_text"]
        return Claimed(rows, pending_instructions=waiting, system_text=brief)
    due = first["next_due_at"]
    wait = settings.TENFOUR["POLL_SECONDS"]
    if due is not None:
        wait = max(1, min(wait, math.ceil((due - now).total_seconds())))
    return none(first, why_none(first), retry_after_s=wait)


def none(seen: Row, reason: str, *, retry_after_s: int) -> Claimed:
    return Claimed(
        reason=reason,
        next_due_at=seen["next_due_at"],
        retry_after_s=retry_after_s,
        pending_instructions=seen["pending_instructions"],
    )


def why_none(row: Row) -> str:
    if row["paused"]:
        return AGENT_PAUSED
    return "plan_paused" if row["plan_paused"] else "no_task"


def pending(agent: Agent) -> int:
    """How many instructions wait for the agent; 100 where there are more."""
    rows = sql.run(f"select {WAITS} from (select %(agent)s::uuid as agent_id) c", agent=agent.pk)
    count: int = rows[0]["pending_instructions"]
    return count


def refuse_named(task: UUID, agent_id: UUID) -> None:
    row = fetch_task(task)
    if row["agent_id"] != agent_id:
        raise NotFound(f"There is no task {task}.")
    if row["state"] == TaskState.RETRY:
        raise InvalidTransition(
            f"The task is tried again at {row['due_at']:%FT%TZ}, and not before.",
            current=row["state"],
            allowed=allowed_moves(row["state"], Who.AGENT),
        )
    raise invalid_transition(row, TaskState.RUNNING, Who.AGENT)


def check_worker(worker_id: str) -> str:
    if len(worker_id) > WORKER_LENGTH or not worker_id.isprintable():
        raise Invalid(
            "/worker_id", f"A worker's id has at most {WORKER_LENGTH} printable characters."
        )
    return worker_id


def check_lease(lease_s: int | None) -> int | None:
    if lease_s is not None and not LEASE_S[0] <= lease_s <= LEASE_S[1]:
        raise Invalid("/lease_s", f"lease_s is a number from {LEASE_S[0]} to {LEASE_S[1]}.")
    return lease_s


# ---- the breaker's tasks


def block_statement(caller: type[Caller]) -> str:
    return f"""with {caller.cte}, moved as ({
        task_to(
            TaskState.BLOCKED,
            where="t.id = any(%(ids)s) and t.agent_id = %(for_agent)s "
            "and t.state in ('queued', 'retry')",
            reason=f"'{BlockedReason.BREAKER_OPEN}'",
        )
    }), journalled as ({
        journal.insert(
            "moved",
            kind=f"'{Kind.TASK_BLOCKED}'",
            subject="task",
            data="jsonb_build_object('reason', m.blocked_reason)",
        )
    }) select id from moved"""


BLOCK: Statements = {caller: block_statement(caller) for caller in (Bearer, TrustedCaller)}


def block(ids: Iterable[UUID], *, agent_id: UUID, caller: Caller, now: datetime) -> None:
    """Hold these tasks until the agent's breaker is no longer open."""
    sql.run(BLOCK[type(caller)], ids=list(ids), for_agent=agent_id, now=now, **caller.params)


UNBLOCK = f"""with {TrustedCaller.cte}, ripe as materialized (
    select t.id from ledger_task t
    where t.state = 'blocked' and t.blocked_reason = 'breaker_open'
        and not exists (select from ledger_breaker b
            where b.agent_id = t.agent_id and b.state = 'open')
    order by t.id limit 1000 for update of t skip locked
), moved as ({
    task_to(TaskState.QUEUED, where="t.id = any(array(select id from ripe)) and t.unmet = 0")
}), journalled as ({
    journal.insert(
        "moved",
        kind=f"'{Kind.TASK_UNBLOCKED}'",
        subject="task",
        data=f"jsonb_build_object('reason', '{BlockedReason.BREAKER_OPEN}')",
    )
}) select id from moved"""


def unblock(*, actor: Actor, now: datetime) -> int:
    """Queue what waited for breakers that are no longer open; returns how many."""
    return len(sql.run(UNBLOCK, now=now, **TrustedCaller(actor).params))


# ---- by name


def start(
    task_id: UUID, *, actor: Actor = SYSTEM, worker_id: str = "", now: datetime | None = None
) -> UUID:
    """Start one task for its agent and return the attempt's id.

    Raises InvalidTransition, ConcurrencyLimit, and CircuitBreakerOpen after the task was blocked
    for that.
    """
    agent = Agent.objects.filter(task__pk=task_id).first()
    if agent is None:
        raise NotFound(f"There is no task {task_id}.")
    found = claim(TrustedCaller(actor, agent=agent), task=task_id, worker_id=worker_id, now=now)
    return started(found, agent.name, task_id)


def started(found: Claimed, agent_name: str, task_id: UUID) -> UUID:
    """The attempt of a claim by name that must not come back empty."""
    if found.reason == "breaker_open":
        raise CircuitBreakerOpen(agent_name, retry_after_s=found.retry_after_s)
    if found.reason == "concurrency_limit":
        raise ConcurrencyLimit(
            f"The agent {agent_name} runs as many attempts at once as it may.",
            retry_after_s=found.retry_after_s,
        )
    if not found.rows:
        raise paused(task_id, found.reason)
    attempt_id: UUID = found.rows[0]["attempt_id"]
    return attempt_id


def paused(task_id: UUID, reason: str | None) -> InvalidTransition:
    row = fetch_task(task_id)
    what = f"The agent {row['agent_name']}" if reason == AGENT_PAUSED else "The task's plan"
    return InvalidTransition(
        f"{what} is paused: the task can't be started until it is resumed.",
        current=row["state"],
        allowed=allowed_moves(row["state"], Who.AGENT),
    )


def last_progress(belongs: Mapping[UUID, UUID]) -> dict[UUID, Any]:
    """What the attempt before the live one said last, by task; `belongs` are the rows of tasks,
    each with the task that goes on with it."""
    rows = (
        Attempt.objects.filter(task_id__in=belongs, outcome__isnull=False)
        .exclude(progress=None)
        .order_by("task_id", "-number")
        .distinct("task_id")
    )
    last = sorted(rows.values_list("number", "task_id", "progress"), key=lambda row: row[0])
    return {belongs[task_id]: progress for _, task_id, progress in last}
