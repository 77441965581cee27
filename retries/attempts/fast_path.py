"""A success that affects no other task: in one statement, or two more if its usage counts."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from ledger import journal
from ledger.database import sql
from ledger.database.sql import Row
from ledger.journal import Actor, Kind, Stamp
from ledger.moves import EVENT_COLUMNS, task_to
from ledger.secrets.redaction import redacted
from ledger.states import EvidenceLevel, Outcome, TaskState
from ledger.tasks import steps
from ledger.tokens import Bearer, Caller, Statements, TrustedCaller, require_caller, select_unseen
from retries import breaker
from retries.attempts.checks.reported import (
    LEVEL_SQL,
    PROOF_SQL,
    Check,
    Tree,
    clean_checks,
    judge_checks,
)
from retries.attempts.live_attempt import IS_LIVE, own_attempt
from retries.attempts.report_fields import clean_usage
from retries.claiming.caller_memory import CallerMemory
from retries.decisions import REPORTED, VERIFIED


def decision_of(exit_code: int | None) -> dict[str, str]:
    # Without an exit code, no verification ran.
    return {"decision": "done", "reason": REPORTED if exit_code is None else VERIFIED}


# Its usage counts for no budget of the task, its plan or its project. Each reads one entry of an
# index.
NOT_COUNTED = """(
                (select true from ledger_budget b where b.task_id = t.id limit 1) is null
                and (select true from ledger_budget b where b.plan_id = t.plan_id limit 1) is null
                and (select true from ledger_budget b where b.project_id = t.project_id
                    and b.plan_id is null and b.task_id is null limit 1) is null)"""


def done_statement(caller: type[Caller]) -> str:
    """Return the statement that moves a task without dependents to done."""
    # Its agent's breaker must be closed and without failures: a success would change it.
    expected = "coalesce((t.payload -> 'verify' ->> 'expect_exit')::int, 0)"
    required = "coalesce((t.payload -> 'verify' ->> 'required')::bool, false)"
    done = task_to(
        TaskState.DONE,
        where=f"""t.id = (select task_id from live) and t.current_attempt = %(attempt)s
            and t.abort_requested_at is null
            and (%(exit)s::int is null and not {required} or %(exit)s = {expected})
            and {LEVEL_SQL} is distinct from '{EvidenceLevel.REQUIRE}'
            and t.needed_by = 0
            and (%(paths)s::text[] is null
                or ledger_files_outside(t.payload -> 'files', %(paths)s) = '{{}}')
            and (%(usage)s::jsonb is null or %(counted)s or {NOT_COUNTED})
            and (select b.agent_id from ledger_breaker b where b.agent_id = t.agent_id
                and ({breaker.HOLDS_BACK} or b.failures > 0)) is null""",
        sets=f"result = %(result)s, proof = {PROOF_SQL}",
        columns=(*EVENT_COLUMNS, "plan_id"),
    )
    return f"""with {caller.cte}, live as materialized (
        select a.task_id from ledger_attempt a, caller c
        where a.id = %(attempt)s and {IS_LIVE} and {own_attempt(caller)}
    ), moved as ({done}), closed as (
        update ledger_attempt a set outcome = '{
        Outcome.SUCCESS
    }', ended_at = greatest(%(now)s, a.started_at),
            report_digest = %(report_digest)s, decision = %(decision)s,
            usage = coalesce(%(usage)s, a.usage),
            checks = %(checks)s, tree = %(tree)s
        where a.id = (select former_attempt from moved) returning old.usage
    ), journaled as ({
        journal.insert(
            "moved",
            kind=f"'{Kind.TASK_COMPLETED}'",
            subject="task",
            data="jsonb_build_object('attempt', m.attempts, 'proof', m.proof)",
        )
    })
    select m.id, m.version, m.project_id, m.agent_id, m.plan_id, c.agent_id as caller_agent,
        c.actor_type, c.actor_id, c.actor_name, {select_unseen("m.id")},
        (select usage from closed) as usage_before,
        %(usage)s::jsonb is not null and (m.id is null or %(counted)s) and exists (
            select from ledger_task t
            where t.id = (select task_id from live) and not {NOT_COUNTED}) as is_counted
    from caller c left join moved m on true"""


DONE: Statements = {caller: done_statement(caller) for caller in (Bearer, TrustedCaller)}


# whose usage counts for budgets
counted = CallerMemory()


def finish_done(
    attempt_id: UUID,
    *,
    result: Any,
    exit_code: int | None,
    usage: dict[str, Any] | None,
    checks: Sequence[Check],
    tree: Tree | None,
    paths: list[str] | None,
    digest: bytes,
    caller: Caller,
    now: datetime,
) -> Row | None:
    """Finish a successful attempt's task; None if the success may have consequences."""
    checks, usage = clean_checks(checks), clean_usage(usage)
    params = {
        "attempt": attempt_id,
        "exit": exit_code,
        "result": Jsonb(redacted(result)),
        "report_digest": digest,
        "decision": Jsonb(decision_of(exit_code)),
        "usage": Jsonb(usage) if usage else None,
        "checks": Jsonb(checks) if checks else None,
        "tree": Jsonb(tree) if tree else None,
        "paths": paths,
        "proofs": Jsonb(judge_checks(checks, tree)),
        "now": now,
    }
    if usage and caller in counted:
        return finish_counted(params, usage, caller=caller, now=now)
    row = run_done(params, is_counted=False, caller=caller, now=now)
    if usage and row["is_counted"]:
        counted.remember(caller, holds=True)
        return finish_counted(params, usage, caller=caller, now=now)
    return row if row["id"] else None


@sql.atomic
def finish_counted(
    params: dict[str, Any], usage: dict[str, Any], *, caller: Caller, now: datetime
) -> Row | None:
    row = run_done(params, is_counted=True, caller=caller, now=now)
    counted.remember(caller, holds=row["is_counted"])
    if not row["id"]:
        return None
    actor = Actor(row["actor_type"], row["actor_id"], row["actor_name"])
    steps.take_more(row, usage, Stamp(actor, now, caller.params["request_id"]))
    return row


def run_done(params: dict[str, Any], *, is_counted: bool, caller: Caller, now: datetime) -> Row:
    rows = sql.run(DONE[type(caller)], **params, counted=is_counted, **caller.params)
    require_caller(rows, caller, now)
    return rows[0]
