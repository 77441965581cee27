"""A live attempt: how it is read with its task, and the statement that ends it."""

from datetime import datetime
from uuid import UUID

from ledger import journal, moves
from ledger.database import sql
from ledger.database.sql import Row
from ledger.errors import NotFound, Refusal
from ledger.journal import Kind
from ledger.moves import task_to
from ledger.states import BlockedReason, Outcome, TaskState
from ledger.tokens import Bearer, Caller, Statements, TrustedCaller, require_caller, select_unseen
from ledger.values.timestamps import format_timestamp
from retries import deadletters
from retries.attempts.checks.reported import LEVEL_SQL
from retries.decisions import UNPROVEN
from retries.escalations import lifecycle

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


def is_spent(task: str, *, now: str = "%(now)s") -> str:
    """Return the SQL that tells whether a budget of a task, its plan or its project is used up."""
    return f"""coalesce(greatest({task}.spent_until,
            (select p.spent_until from ledger_plan p where p.id = {task}.plan_id),
            (select r.spent_until from ledger_project r where r.id = {task}.project_id))
            > {now}, false)"""


def read_statement(caller: type[Caller]) -> str:
    return f"""with {caller.cte}
    select {moves.task_columns("t")}, a.id as attempt_id, a.number, a.outcome, a.report_digest,
        a.decision, a.worker_id, {LEVEL_SQL} as evidence_level,
        {is_spent("t")} as is_spent,
        a.lease_s as attempt_lease_s, a.deadline_at, g.name as agent_name,
        c.actor_type, c.actor_id, c.actor_name, {select_unseen("a.id")}
    from caller c left join (ledger_attempt a join ledger_task t on t.id = a.task_id
        join ledger_agent g on g.id = t.agent_id) on a.id = %(attempt)s and {own_attempt(caller)}"""


READ: Statements = {caller: read_statement(caller) for caller in (Bearer, TrustedCaller)}


def read_attempt(attempt_id: UUID, *, caller: Caller, now: datetime) -> Row:
    """Return the attempt with its task; raises NotFound if it is not the caller's."""
    rows = sql.run(READ[type(caller)], attempt=attempt_id, now=now, **caller.params)
    found = require_caller(rows, caller, now)
    if not found:
        raise NotFound(f"There is no attempt {attempt_id} of this agent.")
    return found[0]


def lease_lost(row: Row) -> LeaseLost:
    if row["outcome"] is None:
        return LeaseLost(
            f"Attempt {row['number']} has passed its deadline, "
            f"{format_timestamp(row['deadline_at'])}.",
            current=row["state"],
        )
    how = "its lease ran out" if row["outcome"] == Outcome.FAILURE else f"it was {row['outcome']}"
    if row["report_digest"] is not None:
        how = "it was reported"
    holder = row["current_attempt"]
    return LeaseLost(
        f"Attempt {row['number']} is over: {how}. The task is {row['state']}.",
        current=row["state"],
        attempt=str(holder) if holder else None,
    )


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
    TaskState.DONE: "result = %(result)s, proof = %(proof)s",
    TaskState.RETRY: "retry_count = %(retry_count)s, error = %(error)s, due_at = %(due_at)s, "
    "attempt_limit = t.attempt_limit + %(granted)s",
    TaskState.FAILED: "retry_count = %(retry_count)s, error = %(error)s",
    # a person may accept a result without proof
    TaskState.ESCALATED: "retry_count = %(retry_count)s, error = %(error)s, "
    f"result = case when %(reason)s = '{UNPROVEN}' then %(result)s else t.result end",
    TaskState.BLOCKED: "error = %(error)s",
    TaskState.ABORTED: "",
    TaskState.QUEUED: "releases = t.releases + 1, attempt_limit = t.attempt_limit + 1",
}
# No row means that the task has changed since it was read.
UNCHANGED = "t.id = %(id)s and t.version = %(version)s and t.current_attempt = %(attempt)s"
# The decision that is stored names the escalation that it opens.
DECISION = "%(decision)s::jsonb"
WITH_ESCALATION = f"""{DECISION} || (select jsonb_build_object('escalation',
            jsonb_build_object('id', o.id)) from opened o)"""


def end_statement(caller: type[Caller], to: TaskState, *, opens: bool = True) -> str:
    """Return the statement that ends an attempt and moves its task, with all that belongs to it.

    A failed task gets its dead letter. For a task that a person is asked about, the statement opens
    the escalation, unless `opens` is false: then the caller opens it with a question.
    """
    reason = f"'{BlockedReason.REPORTED}'" if to == TaskState.BLOCKED else "null"
    moved = task_to(to, where=UNCHANGED, sets=SETS[to], reason=reason)
    asks = opens and to in (TaskState.ESCALATED, TaskState.BLOCKED)
    ctes = {"moved": moved}
    if to == TaskState.FAILED:
        ctes["buried"] = deadletters.insert_for_tasks(
            "moved", reason="%(reason)s", error="%(error)s"
        )
    if asks:
        ctes["opened"] = lifecycle.insert_for_tasks("moved", reason="%(reason)s")
        # Named before the task's event: PostgreSQL runs the last of these inserts first.
        ctes["journaled_opening"] = lifecycle.insert_opened_events("opened")
    ctes["closed"] = f"""update ledger_attempt a set outcome = %(outcome)s,
            ended_at = greatest(%(now)s, a.started_at),
            report_digest = %(report_digest)s, usage = coalesce(%(usage)s, a.usage),
            checks = %(checks)s, tree = %(tree)s, decision = {WITH_ESCALATION if asks else DECISION}
        where a.id = (select former_attempt from moved) returning old.usage"""
    # A pool's task is no longer that of the member whose attempt ended.
    agent = "m.former_agent_id" if to in moves.WAITING else "m.agent_id"
    ctes["journaled"] = journal.insert(
        "moved", kind=f"'{KINDS[to]}'", subject="task", agent=agent, data="%(data)s"
    )
    named = ",\n    ".join(f"{name} as ({text})" for name, text in ctes.items())
    escalation = "(select o.id from opened o)" if asks else "null::uuid"
    return f"""with {caller.cte}, {named}
    select m.*, {escalation} as escalation_id, (select usage from closed) as usage_before
    from moved m"""


END: dict[tuple[type[Caller], TaskState], str] = {
    (caller, to): end_statement(caller, to) for caller in (Bearer, TrustedCaller) for to in KINDS
}
