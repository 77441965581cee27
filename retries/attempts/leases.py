"""Leases that ran out, retries that came due: what the clock does to tasks."""

import logging
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings

from ledger import journal, needs, sql
from ledger.journal import Kind, clock
from ledger.models import ClockRun, Project
from ledger.states import FailureType
from ledger.tokens import TrustedCaller
from retries import breaker, claims
from retries.attempts import finishing
from retries.attempts.finishing import Report

logger = logging.getLogger(__name__)

AWAY_S = 30
AT_ONCE = 500

EXPIRED = """select a.id, a.task_id
from ledger_task t join ledger_attempt a on a.id = t.current_attempt
where t.state = 'running' and least(a.lease_expires_at, a.deadline_at) <= %(now)s
    and (%(project)s::uuid is null or t.project_id = %(project)s)
order by t.id limit %(most)s"""

# Looked at anew when its turn comes: it may have beaten since, and heartbeats leave the task alone.
STILL = f"""select a.deadline_at <= %(now)s as is_late from ledger_attempt a
where a.id = %(id)s and {finishing.LIVES}
    and least(a.lease_expires_at, a.deadline_at) <= %(now)s for update"""

EXTEND = """update ledger_attempt a
set lease_expires_at = greatest(a.lease_expires_at, %(now)s + a.lease_s * interval '1 second'),
    deadline_at = greatest(a.deadline_at, %(now)s + a.lease_s * interval '1 second')
where a.outcome is null returning a.id"""


def away() -> timedelta:
    """How long between two runs is our own outage, however seldom the sweep is asked to run."""
    return timedelta(seconds=max(AWAY_S, 3 * settings.TENFOUR["EXPIRE_LEASES_SECONDS"]))


def expire_leases(*, now: datetime, project: Project | None = None) -> dict[str, Any]:
    """End what nobody has renewed; where this sweep itself was away, renew everything instead."""
    last = ClockRun.objects.filter(name="expire_leases").values_list("did", flat=True).first()
    before = datetime.fromisoformat(last["at"]) if last and "at" in last else None
    did = {"at": now.isoformat()}
    if project is None and (before is None or now - before > away()):
        return did | {"extended": len(sql.run(EXTEND, now=now)), "expired": 0}
    return did | {"extended": 0, "expired": expire(now=now, project=project)}


def expire(*, now: datetime, project: Project | None = None) -> int:
    """Close every attempt whose lease or deadline is over, as a timeout; returns how many."""
    rows = sql.run(EXPIRED, now=now, project=project.id if project else None, most=AT_ONCE)
    return sum(expire_one(row["id"], task_id=row["task_id"], now=now) for row in rows)


def expire_one(attempt_id: UUID, *, task_id: UUID, now: datetime) -> bool:
    """Whether it was this call that ended it; what goes wrong here holds nobody else up."""
    try:
        return timed_out(attempt_id, task_id=task_id, now=now)
    except Exception:
        logger.exception("attempt %s could not be ended", attempt_id)
        return False


@sql.atomic
def timed_out(attempt_id: UUID, *, task_id: UUID, now: datetime) -> bool:
    """Whether it is still over, and was ended for that."""
    needs.hold([task_id])  # the task, then its attempt: the order of a report
    found = sql.run(STILL, id=attempt_id, now=now)
    if not found:
        return False
    is_late = found[0]["is_late"]
    said = Report(
        status="failure",
        type=FailureType.TIMEOUT,
        code="deadline_exceeded" if is_late else "lease_expired",
        message="It ran longer than its timeout." if is_late else "Nobody renewed its lease.",
    )
    caller = TrustedCaller(clock("expire_leases"))
    row = finishing.live_row(attempt_id, caller=caller, now=now)
    return finishing.settle(row, said, digest=None, caller=caller, now=now) is not None


DUE = f"""with {TrustedCaller.cte}, ripe as materialized (
    select id from ledger_task
    where state = 'retry' and due_at <= %(now)s and due_noted_at is null
        and (%(of)s::uuid is null or project_id = %(of)s)
    order by id limit 1000 for update skip locked
), noted as (
    update ledger_task t set due_noted_at = %(now)s, updated_at = %(now)s
    where t.id = any(array(select id from ripe))
    returning t.id, t.project_id, t.agent_id, t.attempts
), told as ({
    journal.insert(
        "noted",
        kind=f"'{Kind.TASK_DUE}'",
        subject="task",
        from_state="null",
        to_state="null",
        data="jsonb_build_object('attempt', m.attempts + 1)",
    )
}) select id from noted"""


def backoff(*, now: datetime, project: Project | None = None) -> dict[str, Any]:
    """Note once that a retry has come due; no claim waits for that."""
    known = TrustedCaller(clock("backoff"))
    rows = sql.run(DUE, now=now, of=project.id if project else None, **known.params)
    return {"due": len(rows)}


def breakers(*, now: datetime, project: Project | None = None) -> dict[str, Any]:
    """Half-open the breakers whose time is over, and queue what waited for them."""
    opened = breaker.half_open_due(now=now)
    return {
        "half_open": len(opened),
        "unblocked": claims.unblock(actor=clock("breakers"), now=now),
    }
