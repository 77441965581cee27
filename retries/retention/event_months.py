"""A month of the journal that is past: archived in batches, and then dropped whole.

A month can take longer than a worker lives. A run archives events for a while and stores where it
stopped; the next one continues there.
"""

import time
from collections.abc import Iterator
from datetime import datetime
from uuid import UUID

from ledger.database import sql
from ledger.journal_storage import months as journal_months
from ledger.journal_storage.months import Busy, JournalPartition
from ledger.models import ClockRun
from ledger.values.ids import FIRST_ID
from retries.retention.archives import JOURNAL, ArchiveBusy, Record
from retries.retention.pace import Pace
from retries.retention.row_kind import build_records, select_records
from retries.retention.running import open_archive

EVENTS_READ = 1000
# A run ends after about this long.
SLICE_SECONDS = 60.0
REST_SHARE = 1.0  # of `pace`
ENTRY = "journal"  # of the clock


def archive_and_drop(month: JournalPartition, *, now: datetime) -> bool:
    """Archive a month for a while, if archives are on; drop it once the archive has all its events.

    Return whether it is gone. Raises Busy if it has to wait, and OSError if the archive can't be
    written.
    """
    # A month that an earlier run began to drop is in the archive already. An administrator may have
    # begun to detach another one.
    is_archived = month.is_detaching and month.is_marked
    if not is_archived and not archive_month(month, now=now):
        return False
    journal_months.drop_month(month)
    store_resume_after({}, now=now)
    return True


def archive_month(month: JournalPartition, *, now: datetime) -> bool:
    """Archive a month's next events; return whether all are archived, or archives are off."""
    ends_at, pace = time.monotonic() + SLICE_SECONDS, Pace(REST_SHARE)
    try:
        with open_archive(now, JOURNAL) as archive:
            if archive is None:
                return True
            for records, last in read_events(month, after=fetch_position(month)):
                # A batch whose run was killed here may be in the archive twice.
                archive.append(records)
                store_resume_after({month.name: str(last)}, now=now)
                if time.monotonic() >= ends_at:
                    return False
                pace.rest()
    except ArchiveBusy as error:
        raise Busy("Another run archives the journal.") from error
    return True


def read_events(month: JournalPartition, *, after: UUID) -> Iterator[tuple[list[Record], UUID]]:
    """Yield a month's events after an id in batches, oldest first, each with its last id."""
    statement = select_records(
        "event",
        "jsonb_build_object('event', to_jsonb(e))",
        "array[e.id::text, e.subject_id::text]",
        f"(select * from {month.name} where id > %(after)s order by id limit %(most)s::int) e",
        project="e.project_id",
        also="e.id as place, ",
    )
    while rows := sql.run(statement, after=after, most=EVENTS_READ):
        after = max(row["place"] for row in rows)
        yield build_records(rows), after


# ---- where the last run stopped


def fetch_resume_after() -> dict[str, str]:
    """Return the month that is not archived to its end, with the last id in the archive."""
    last = ClockRun.objects.filter(name=ENTRY).values_list("did", flat=True).first() or {}
    resume_after: dict[str, str] = last.get("resume_after", {})
    return resume_after


def fetch_position(month: JournalPartition) -> UUID:
    return UUID(fetch_resume_after().get(month.name, str(FIRST_ID)))


def store_resume_after(resume_after: dict[str, str], *, now: datetime) -> None:
    did = {"resume_after": resume_after}
    ClockRun.objects.update_or_create(
        name=ENTRY, defaults={"did": did}, create_defaults={"did": did, "last_run_at": now}
    )
