"""Name what an event of a task says about its attempt, for webhooks that ask for it (pure).

These names have no rows in the journal: the task's event says the same.
"""

from ledger.database.sql import Row
from ledger.journal import Kind, clock
from retries.states import Reason

STARTED, SUCCEEDED, FAILED = "attempt.started", "attempt.succeeded", "attempt.failed"
LEASE_EXPIRED, RELEASED = "attempt.lease_expired", "attempt.released"
ABORT_REQUESTED = "attempt.abort_requested"
ATTEMPT_NAMES = (STARTED, SUCCEEDED, FAILED, LEASE_EXPIRED, RELEASED, ABORT_REQUESTED)
SWEEP = clock("expire_leases")
# kinds that say it by themselves
PLAIN = {Kind.TASK_CLAIMED: STARTED, Kind.TASK_COMPLETED: SUCCEEDED, Kind.TASK_RELEASED: RELEASED}
# kinds with which a failed attempt may end
ENDS = (
    Kind.TASK_RETRY_SCHEDULED,
    Kind.TASK_BLOCKED,
    Kind.TASK_ESCALATED,
    Kind.TASK_FAILED,
    Kind.TASK_ABORTED,
)


def name_attempt(event: Row) -> str | None:
    """Return the name of what happened to an attempt, or None if nothing did.

    >>> by, data = {"actor_type": "token", "actor_name": "a"}, {"attempt": 2, "failure_type": "x"}
    >>> name_attempt({"kind": "task.failed", "data": data} | by)
    'attempt.failed'
    >>> name_attempt({"kind": "task.failed", "data": {"note": "by a person"}})
    """
    kind, data = event["kind"], event["data"]
    if kind == Kind.TASK_ABORT_REQUESTED:
        return ABORT_REQUESTED
    if "attempt" not in data:
        return None
    if kind in PLAIN:
        return PLAIN[kind]
    if data.get("reason") == Reason.RELEASES_EXHAUSTED:
        return RELEASED
    if kind not in ENDS or "failure_type" not in data:
        return None
    # agents choose codes of their own, so only that of the clock counts
    is_by_clock = (event["actor_type"], event["actor_name"]) == (SWEEP.type, SWEEP.name)
    return LEASE_EXPIRED if is_by_clock and data.get("code") == "lease_expired" else FAILED
