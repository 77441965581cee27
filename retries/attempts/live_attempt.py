"""The attempt that holds a task: how it is read, and the one statement that ends it."""

from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from ledger import journal, moves, sql
from ledger.errors import NotFound, Refusal
from ledger.instructions import answered
from ledger.journal import Actor, Kind
from ledger.moves import task_to
from ledger.sql import Row
from ledger.states import BlockedReason, Outcome, TaskState
from ledger.tokens import Bearer, Caller, Statements, TrustedCaller

# how often a verb reads, decides and writes again after the task changed in between
TRIES = 10
# 'outcome is null' means the same. But where few attempts are live, PostgreSQL would read the
# whole index of live attempts, with all the dead entries that vacuum has not removed yet.
IS_LIVE = "a.ended_at is null"


class LeaseLost(Refusal):
    """This attempt is no longer live"""

    code = "lease_lost"
    hint = "Stop working on the task: reports from this attempt change nothing. Claim again."


def own_attempt(caller: type[Caller]) -> str:
    """Return the SQL condition that the attempt `a` belongs to the caller `c`."""
    return "a.agent_id = c.agent_id" if caller is Bearer else "true"


def read_statement(caller: type[Caller]) -> str:
    return f"""with {caller.cte}
    select {moves.task_columns("t")}, a.id as attempt_id, a.number, a.outcome, a.report_digest,
        a.decision, a.worker_id, a.lease_s as attempt_lease_s, a.deadline_at, g.name as agent_name,
        c.actor_type, c.actor_id, c.actor_name, c.unseen
    from caller c left join (ledger_attempt a join ledger_task t on t.id = a.task_id
        join ledger_agent g on g.id = t.agent_id) on a.id = %(attempt)s and {own_attempt(caller)}"""


READ: Statements = {caller: read_statement(caller) for caller in (Bearer, TrustedCaller)}


def read_attempt(attempt_id: UUID, *, caller: Caller, now: datetime) -> Row:
    """Return the attempt with its task; raises NotFound where the caller has no such attempt."""
    rows = sql.run(READ[type(caller)], attempt=attempt_id, now=now, **caller.params)
    found = answered(rows, caller, now)
    if not found:
        raise NotFound(f"There is no attempt {attempt_id} of this agent.")
    return found[0]


def lease_lost(row: Row) -> LeaseLost:
    """Return the refusal for an attempt that is over, saying how it ended."""
    how = "its lease ran out" if row["outcome"] == Outcome.FAILURE else f"it was {row['outcome']}"
    if row["report_digest"] is not None:
        how = "it was reported"
    holder = row["current_attempt"]
    return LeaseLost(
        f"Attempt {row['number']} is over: {how}. The task is {row['state']}.",
        current=row["state"],
        attempt=str(holder) if holder else None,
    )


def actor_of(row: Row) -> Actor:
    """Return the caller of the statement that read the row, as the journal names it."""
    return Actor(row["actor_type"], row["actor_id"], row["actor_name"])


# ---- the end

KINDS = {
    TaskState.DONE: Kind.TASK_COMPLETED,
    TaskState.RETRY: Kind.TASK_RETRY_SCHEDULED,
    TaskState.FAILED: Kind.TASK_FAILED,
    TaskState.ESCALATED: Kind.TASK_ESCALATED,
    TaskState.BLOCKED: Kind.TASK_BLOCKED,
    TaskState.ABORTED: Kind.TASK_ABORTED,
    TaskState.QUEUED: Kind.TASK_RELEASED,
}
SETS = {
    TaskState.DONE: "result = %(result)s",
    TaskState.RETRY: "retry_count = %(retry_count)s, error = %(error)s, due_at = %(due_at)s",
    TaskState.FAILED: "retry_count = %(retry_count)s, error = %(error)s",
    TaskState.ESCALATED: "retry_count = %(retry_count)s, error = %(error)s",
    TaskState.BLOCKED: "error = %(error)s",
    TaskState.ABORTED: "",
    TaskState.QUEUED: "releases = t.releases + 1, attempt_limit = t.attempt_limit + 1",
}
# No row means that the task has changed since it was read.
UNCHANGED = "t.id = %(id)s and t.version = %(version)s and t.current_attempt = %(attempt)s"


def move_statement(caller: type[Caller], to: TaskState) -> str:
    """Return the statement that moves the task of an attempt that ends."""
    reason = f"'{BlockedReason.REPORTED}'" if to == TaskState.BLOCKED else "null"
    moved = task_to(to, where=UNCHANGED, sets=SETS[to], reason=reason)
    event = journal.insert("moved", kind=f"'{KINDS[to]}'", subject="task", data="%(data)s")
    return f"with {caller.cte}, moved as ({moved}), journaled as ({event}) select * from moved"


MOVE: dict[tuple[type[Caller], TaskState], str] = {
    (caller, to): move_statement(caller, to) for caller in (Bearer, TrustedCaller) for to in KINDS
}

CLOSE = """update ledger_attempt set outcome = %(outcome)s, ended_at = %(now)s,
    report_digest = %(digest)s, decision = %(decision)s where id = %(id)s"""


def close(
    attempt_id: UUID,
    outcome: Outcome,
    *,
    digest: bytes | None,
    decision: dict[str, Any] | None,
    now: datetime,
) -> None:
    """End an attempt, in the transaction that moves its task."""
    sql.run(
        CLOSE,
        id=attempt_id,
        outcome=outcome,
        digest=digest,
        decision=Jsonb(decision) if decision is not None else None,
        now=now,
    )
