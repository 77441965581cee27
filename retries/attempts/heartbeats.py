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
from ledger.secrets.redaction import redact_output, redacted
from ledger.tokens import (
    Bearer,
    Caller,
    Statements,
    TrustedCaller,
    require_caller,
    select_unseen,
)
from retries.attempts.diffs import store_diff
from retries.attempts.live_attempt import IS_LIVE, is_spent, lease_lost, own_attempt, read_attempt
from retries.claiming.statements import pending_instructions
from retries.decisions import BUDGET_USED

PROGRESS_BYTES = 8192
OUTPUT_BYTES = 4096


def heartbeat_statement(caller: type[Caller]) -> str:
    return f"""with {caller.cte}, beat as (
        update ledger_attempt a set heartbeat_at = %(now)s, heartbeats = a.heartbeats + 1,
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
            as stop_reason,
        {pending_instructions("b.agent_id")} as pending_instructions
    from caller c left join beat b on true left join lateral (
        select t.abort_requested_at is not null as abort_requested, {is_spent("t")} as is_spent
        from ledger_task t where t.id = b.task_id
    ) s on true"""


HEARTBEAT: Statements = {caller: heartbeat_statement(caller) for caller in (Bearer, TrustedCaller)}


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
    now: datetime | None = None,
) -> Row:
    """Renew the lease of a live attempt; raises LeaseLost if it is over or past its deadline.

    `output` has the command's last lines, which are stored when the attempt ends. `diff` is what
    the attempt has changed, `environment` where it runs, and `check` the command that checks it.
    """
    now = now or server_time.now()
    if progress is not None and len(json.dumps(progress)) > PROGRESS_BYTES:
        raise Invalid("/progress", f"progress has at most {PROGRESS_BYTES} bytes.")
    rows = sql.run(
        HEARTBEAT[type(caller)],
        attempt=attempt_id,
        progress=Jsonb(redacted(progress)) if progress is not None else None,
        output=last_lines(output) if output is not None else None,
        extend=extend_s,
        now=now,
        **caller.params,
    )
    found = require_caller(rows, caller, now)
    if not found:
        raise lease_lost(read_attempt(attempt_id, caller=caller, now=now))
    if diff is not None or environment is not None:
        store_diff(attempt_id, diff=diff, environment=environment, check=check)
    count_heartbeat(found[0]["agent_id"])
    return found[0]


def last_lines(output: str) -> str:
    """Return an output's last lines as a terminal shows them, without secrets."""
    text = redact_output(output)
    data = text.encode(errors="replace")
    if len(data) <= OUTPUT_BYTES:
        return text
    end = data[-OUTPUT_BYTES:].decode(errors="ignore")
    return end.partition("\n")[2] or end
