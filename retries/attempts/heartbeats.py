"""Heartbeats: a live attempt renews its lease and reports progress."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from ledger.database import server_time, sql
from ledger.database.process_counters import count_heartbeat
from ledger.database.sql import Row
from ledger.errors import Invalid
from ledger.journal import SYSTEM, Stamp
from ledger.secrets.redaction import redact_output, redacted
from ledger.tasks import steps
from ledger.tokens import Bearer, Caller, Statements, TrustedCaller, require_caller, select_unseen
from retries.attempts.diffs import store_diff
from retries.attempts.fast_path import NOT_COUNTED
from retries.attempts.live_attempt import IS_LIVE, is_spent, lease_lost, own_attempt, read_attempt
from retries.attempts.report_fields import clean_usage
from retries.claiming.statements import pending_instructions
from retries.decisions import BUDGET_USED

PROGRESS_BYTES = 8192
OUTPUT_BYTES = 4096
# Usage that a budget counts is stored with what it adds to the budget: see count_usage.
SUMS = """(coalesce(({0} ->> 'input_tokens')::bigint, 0)
        + coalesce(({0} ->> 'output_tokens')::bigint, 0),
    coalesce(({0} ->> 'cost_usd')::numeric, 0))"""
# An attempt that is resumed may begin to count again, which must not give a budget its usage back.
TELLS_LESS = f"""({{0}} ->> 'source' is null
    and {SUMS.format("%(usage)s::jsonb")} < {SUMS.format("{0}")})"""
USAGE = f""" usage = case when not {TELLS_LESS.format("a.usage")} and (
                select {NOT_COUNTED} from ledger_task t where t.id = a.task_id
            ) then %(usage)s::jsonb else a.usage end,"""
IS_UNCOUNTED = f""" %(usage)s::jsonb is distinct from b.usage
        and not {TELLS_LESS.format("b.usage")} as is_uncounted,"""


def heartbeat_statement(caller: type[Caller], *, has_usage: bool = False) -> str:
    # Without usage, the statement looks at no budget.
    usage, is_uncounted = (USAGE, IS_UNCOUNTED) if has_usage else ("", "")
    return f"""with {caller.cte}, beat as (
        update ledger_attempt a set heartbeat_at = %(now)s, heartbeats = a.heartbeats + 1,{usage}
            progress = coalesce(%(progress)s, a.progress),
            last_output = coalesce(%(output)s, a.last_output), lease_expires_at = greatest(
                a.lease_expires_at,
                %(now)s + coalesce(%(extend)s, a.lease_s) * interval '1 second')
        from caller c where a.id = %(attempt)s and {IS_LIVE} and {own_attempt(caller)}
            and a.deadline_at > %(now)s
        returning a.*
    )
    select b.id, b.agent_id, b.lease_expires_at, b.deadline_at, {select_unseen("b.id")},
        s.abort_requested or s.is_spent as abort_requested,
        case when s.abort_requested then 'abort' when s.is_spent then '{BUDGET_USED}' end
            as stop_reason,{is_uncounted}
        {pending_instructions("b.agent_id")} as pending_instructions
    from caller c left join beat b on true left join lateral (
        select t.abort_requested_at is not null as abort_requested, {is_spent("t")} as is_spent
        from ledger_task t where t.id = b.task_id
    ) s on true"""


HEARTBEAT: Statements = {caller: heartbeat_statement(caller) for caller in (Bearer, TrustedCaller)}
USED_SO_FAR: Statements = {
    caller: heartbeat_statement(caller, has_usage=True) for caller in HEARTBEAT
}


def renew_lease(
    attempt_id: UUID,
    *,
    caller: Caller,
    progress: dict[str, Any] | None = None,
    output: str | None = None,
    extend_s: int | None = None,
    diff: str | None = None,
    environment: Mapping[str, str] | None = None,
    check: str = "",
    usage: dict[str, Any] | None = None,
    now: datetime | None = None,
) -> Row:
    """Renew the lease of a live attempt; raises LeaseLost if it is over or past its deadline.

    `output` has the command's last lines, which are stored when the attempt ends. `diff` is what
    the attempt has changed, `environment` where it runs, and `check` the command that checks it.
    `usage` is what the attempt has used since its start, in place of what was told before; less
    than that counts nothing.
    """
    now = now or server_time.now()
    if progress is not None and len(json.dumps(progress)) > PROGRESS_BYTES:
        raise Invalid("/progress", f"progress has at most {PROGRESS_BYTES} bytes.")
    known = clean_usage(usage)
    more = {"usage": Jsonb(known)} if known else {}
    rows = sql.run(
        (USED_SO_FAR if known else HEARTBEAT)[type(caller)],
        attempt=attempt_id,
        progress=Jsonb(redacted(progress)) if progress is not None else None,
        output=last_lines(output) if output is not None else None,
        extend=extend_s,
        now=now,
        **more,
        **caller.params,
    )
    found = require_caller(rows, caller, now)
    if not found:
        raise lease_lost(read_attempt(attempt_id, caller=caller, now=now))
    if diff is not None or environment is not None:
        store_diff(attempt_id, diff=diff, environment=environment, check=check)
    count_heartbeat(found[0]["agent_id"])
    if known and found[0]["is_uncounted"] and count_usage(attempt_id, known, now=now):
        why = found[0]["stop_reason"] or BUDGET_USED
        return found[0] | {"abort_requested": True, "stop_reason": why}
    return found[0]


# The task is locked before its attempt, as reports do. If another transaction has it, the next
# heartbeat or the report tells as much and more.
HOLD = """select t.id, t.project_id, t.plan_id, t.agent_id from ledger_task t
where t.id = (select a.task_id from ledger_attempt a where a.id = %(attempt)s)
    and t.current_attempt = %(attempt)s for no key update skip locked"""
STORE_USAGE = f"""update ledger_attempt a set usage = %(usage)s
where a.id = %(attempt)s and {IS_LIVE} and not {TELLS_LESS.format("a.usage")}
returning old.usage as usage_before"""
IS_SPENT = f"select {is_spent('t')} as is_spent from ledger_task t where t.id = %(id)s"


@sql.atomic
def count_usage(attempt_id: UUID, usage: dict[str, Any], *, now: datetime) -> bool:
    """Count what a live attempt has used so far; return whether a budget is used up."""
    tasks = sql.run(HOLD, attempt=attempt_id)
    stored = sql.run(STORE_USAGE, attempt=attempt_id, usage=Jsonb(usage)) if tasks else []
    if not stored:
        return False
    row = tasks[0] | stored[0]
    steps.take_more(row, usage, Stamp(SYSTEM, now))
    is_used_up: bool = sql.run(IS_SPENT, id=row["id"], now=now)[0]["is_spent"]
    return is_used_up


def last_lines(output: str) -> str:
    """Return an output's last lines as a terminal shows them, without secrets."""
    text = redact_output(output)
    data = text.encode(errors="replace")
    if len(data) <= OUTPUT_BYTES:
        return text
    end = data[-OUTPUT_BYTES:].decode(errors="ignore")
    return end.partition("\n")[2] or end
