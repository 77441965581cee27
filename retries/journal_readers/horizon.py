"""Find the first day whose activity can still be counted from the rows."""

from datetime import UTC, datetime, timedelta

from django.conf import settings

from ledger.database import sql
from ledger.database.sql import quoted
from ledger.journal import Kind
from ledger.journal_storage.months import list_partitions

BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
# Rows of this age may be deleted while they are counted.
SETTINGS = ("TASK_DAYS", "INSTRUCTION_DAYS", "ESCALATION_DAYS", "EVENT_DAYS")
LONGEST_REBUILD = DAY


def find_orphan(subject: str, table: str, condition: str) -> str:
    """Return the statement that finds the last counted event of a row that was deleted."""
    return f"""select max(e.at) as at from ledger_event e
where e.subject_type = '{subject}' and e.agent_id is not null and {condition}
    and not exists (select from {table} x where x.id = e.subject_id)"""


TASK_KINDS = quoted((Kind.TASK_COMPLETED, Kind.TASK_FAILED, Kind.TASK_ESCALATED))
INSTRUCTION_KINDS = quoted(
    (
        Kind.INSTRUCTION_QUEUED,
        Kind.INSTRUCTION_ACKNOWLEDGED,
        Kind.INSTRUCTION_DECLINED,
        Kind.INSTRUCTION_FAILED,
    )
)
ORPHANS = (
    find_orphan("task", "ledger_task", f"(e.from_state = 'running' or e.kind in ({TASK_KINDS}))"),
    find_orphan("instruction", "ledger_instruction", f"e.kind in ({INSTRUCTION_KINDS})"),
    find_orphan("escalation", "retries_escalation", f"e.kind = '{Kind.ESCALATION_RESOLVED}'"),
)


def find_first_whole_day(*, now: datetime) -> datetime:
    """Return the first midnight, in UTC, after all rows that were deleted or may soon be."""
    days = [BEGINNING]
    for statement in ORPHANS:
        if last := sql.run_custom_plan(statement)[0]["at"]:
            days.append(midnight_of(last) + DAY)
    first = list_partitions()[0].start
    if first:  # the months before were dropped; ids and times differ by moments
        days.append(midnight_of(first) + DAY)
    for name in SETTINGS:
        if kept := settings.TENFOUR[name]:
            days.append(midnight_of(now - timedelta(days=kept) + LONGEST_REBUILD) + DAY)
    return max(days)


def midnight_of(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
