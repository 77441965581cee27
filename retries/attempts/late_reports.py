"""Record the report of an attempt that was taken away from its agent: it counts for nothing."""

from datetime import datetime

from ledger import journal
from ledger.database.sql import Row
from ledger.journal import Actor, Kind, Stamp
from ledger.models import Event
from ledger.tokens import Caller
from ledger.values.text import truncate
from retries.attempts.report_fields import Report

SUMMARY_LENGTH = 500


def record_late(row: Row, report: Report, *, caller: Caller, now: datetime) -> None:
    """Journal the first report, already cleaned, of an attempt that ended without its agent."""
    # The task's history shows it, so that a person sees what was done.
    if report.digest is None:
        return  # Tenfour itself ends the attempt
    known = Event.objects.about(row["id"]).filter(
        kind=Kind.TASK_REPORTED_LATE, data__attempt=row["number"]
    )
    if known.exists():
        return
    data = {
        "attempt": row["number"],
        "status": report.status,
        "summary": truncate(report.summary or report.message, SUMMARY_LENGTH),
        "exit_code": report.exit_code,
        "files": len(report.files_modified) or None,
    }
    actor = Actor(row["actor_type"], row["actor_id"], row["actor_name"])
    journal.record(
        Kind.TASK_REPORTED_LATE,
        subject_type="task",
        subject_id=row["id"],
        agent_id=row["agent_id"],
        project_id=row["project_id"],
        stamp=Stamp(actor, now, caller.params["request_id"]),
        data={name: value for name, value in data.items() if value not in (None, "")},
    )
