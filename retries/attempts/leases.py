"""Expired leases, due retries and half-open breakers: the clock's work on tasks."""

import logging
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from ledger import journal, needs
from ledger.database import sql
from ledger.journal import Kind, Stamp, clock
from ledger.models import ClockRun, Project
from ledger.states import FailureType
from ledger.tokens import TrustedCaller
from retries import breaker, claims
from retries.attempts import finishing, live_attempt, releases
from retries.attempts.report_fields import Report
from retries.claiming.session_names import SESSION

logger = logging.getLogger(__name__)

# The sweep runs every 5 seconds. After a longer pause than this, it was down itself.
OUTAGE = timedelta(seconds=30)
# why an attempt is released that its session did not begin
UNUSED = "session_unused"
BATCH = 500

EXPIRED = """select a.id, a.task_id
from ledger_task t join ledger_attempt a on a.id = t.current_attempt
where t.state = 'running' and least(a.lease_expires_at, a.deadline_at) <= %(now)s
    and (%(project)s::uuid is null or t.project_id = %(project)s)
order by t.id limit %(most)s"""

# Read again under a lock: a heartbeat may have come since, and heartbeats do not touch the task.
STILL_EXPIRED = f"""select a.deadline_at <= %(now)s as is_late,
    a.heartbeat_at is null and starts_with(a.worker_id, '{SESSION}') as is_unused
from ledger_attempt a
where a.id = %(id)s and {live_attempt.IS_LIVE}
    and least(a.lease_expires_at, a.deadline_at) <= %(now)s for update"""

EXTEND = """update ledger_attempt a
set lease_expires_at = greatest(a.lease_expires_at, %(now)s + a.lease_s * interval '1 second'),
    deadline_at = greatest(a.deadline_at, %(now)s + a.lease_s * interval '1 second')
where a.outcome is null returning a.id"""


def expire_leases(*, now: datetime, project: Project | None = None) -> dict[str, Any]:
    """End attempts with expired leases or, after an outage of this sweep, extend all leases."""
    # During an outage agents may have been unable to renew their leases.
    last = ClockRun.objects.filter(name="expire_leases").values_list("did", flat=True).first()
    before = datetime.fromisoformat(last["at"]) if last and "at" in last else None
    did = {"at": now.isoformat()}
    # A time in the future, from before the clock was set back, says nothing about an outage.
    if project is None and (before is None or abs(now - before) > OUTAGE):
        return did | {"extended": len(sql.run(EXTEND, now=now)), "expired": 0}
    return did | {"extended": 0, "expired": expire(now=now, project=project)}


def expire(*, now: datetime, project: Project | None = None) -> int:
    """Close every attempt whose lease or deadline has passed, as a timeout; return how many."""
    rows = sql.run(EXPIRED, now=now, project=project.id if project else None, most=BATCH)
    return sum(expire_one(row["id"], task_id=row["task_id"], now=now) for row in rows)


def expire_one(attempt_id: UUID, *, task_id: UUID, now: datetime) -> bool:
    # One attempt's error is logged, so that it does not stop the others.
    try:
        return time_out(attempt_id, task_id=task_id, now=now)
    except Exception:
        logger.exception("attempt %s could not be ended", attempt_id)
        return False


@sql.atomic
def time_out(attempt_id: UUID, *, task_id: UUID, now: datetime) -> bool:
    """End the attempt if it is still expired; return whether it was."""
    # Lock the task before its attempt, as reports do.
    needs.hold([task_id])
    found = sql.run(STILL_EXPIRED, id=attempt_id, now=now)
    if not found:
        return False
    caller = TrustedCaller(clock("expire_leases"))
    is_late = found[0]["is_late"]
    if found[0]["is_unused"] and not is_late:
        # An agent's session was only opened: nothing was tried that could have failed.
        releases.release(attempt_id, caller=caller, reason=UNUSED, now=now)
        return True
    report = Report(
        status="failure",
        type=FailureType.TIMEOUT,
        code="deadline_exceeded" if is_late else "lease_expired",
        message="The attempt ran longer than its timeout."
        if is_late
        else "The agent did not renew its lease.",
    )
    row = live_attempt.read_attempt(attempt_id, caller=caller, now=now)
    return finishing.settle(row, report, caller=caller, now=now) is not None


DUE = f"""with {TrustedCaller.cte}, ripe as materialized (
    select id from ledger_task
    where state = 'retry' and due_at <= %(now)s and due_noted_at is null
        and (%(of)s::uuid is null or project_id = %(of)s)
    order by id limit 1000 for update skip locked
), noted as (
    update ledger_task t set due_noted_at = %(now)s, updated_at = %(now)s
    where t.id = any(array(select id from ripe))
    returning t.id, t.project_id, t.agent_id, t.attempts
), journaled as ({
    journal.insert_without_states(
        "noted",
        kind=f"'{Kind.TASK_DUE}'",
        subject="task",
        data="jsonb_build_object('attempt', m.attempts + 1)",
    )
}) select id from noted"""


def note_due_retries(*, now: datetime, project: Project | None = None) -> dict[str, Any]:
    """Journal each retry once when it comes due; claims do not wait for this."""
    known = TrustedCaller(clock("backoff"))
    rows = sql.run(DUE, now=now, of=project.id if project else None, **known.params)
    return {"due": len(rows)}


def half_open_breakers(*, now: datetime, project: Project | None = None) -> dict[str, Any]:
    stamp = Stamp(clock("breakers"), now)
    opened = breaker.half_open_due(stamp=stamp)
    return {"half_open": len(opened), "unblocked": claims.unblock_tasks(stamp=stamp)}
