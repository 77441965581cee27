"""Releases: an agent gives a task back unfinished."""

from datetime import datetime
from uuid import UUID

from ledger.database import server_time
from ledger.database.sql import Row
from ledger.secrets.notes import clean_message
from ledger.states import Outcome, TaskState
from ledger.tokens import Caller
from retries.attempts.finishing import end_attempt, error_of
from retries.attempts.live_attempt import TRIES, LeaseLost, lease_lost, read_attempt
from retries.attempts.report_fields import MESSAGE_LENGTH, Report
from retries.decisions import Decision

MAX_RELEASES = 10


def release(
    attempt_id: UUID,
    *,
    caller: Caller,
    reason: str = "shutdown",
    note: str = "",
    now: datetime | None = None,
) -> Row:
    """Queue an unfinished attempt's task again; the attempt does not count.

    A second release returns the same answer.
    """
    # The tenth release of a round asks a person.
    now = now or server_time.now()
    message = clean_message(note, limit_bytes=MESSAGE_LENGTH)
    report = Report(status="released", message=message)
    for _ in range(TRIES):
        row = read_attempt(attempt_id, caller=caller, now=now)
        if row["outcome"] == Outcome.RELEASED:
            return row
        if row["outcome"] is not None:
            raise lease_lost(row)
        decision = decide_release(row, reason)
        moved = end_attempt(
            row,
            decision,
            report,
            outcome=Outcome.RELEASED,
            error=error_of(report, decision),
            fields=None,
            caller=caller,
            now=now,
        )
        if moved:
            return moved | {"agent_name": row["agent_name"]}
    raise LeaseLost("The task kept changing while it was released.")


def decide_release(row: Row, reason: str) -> Decision:
    if row["abort_requested_at"]:
        return Decision(TaskState.ABORTED, "user_abort")
    if row["releases"] + 1 >= MAX_RELEASES:
        return Decision(TaskState.ESCALATED, "releases_exhausted")
    return Decision(TaskState.QUEUED, reason)
