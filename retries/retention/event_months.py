"""A month of the journal that is past: archived in batches, and then dropped whole."""

from collections.abc import Iterator
from datetime import datetime

from ledger import journal_months, sql
from ledger.ids import FIRST_ID
from ledger.journal_months import Busy, JournalPartition
from retries.retention.archives import ArchiveBusy, Record
from retries.retention.row_kind import build_records, select_records
from retries.retention.running import open_archive

EVENTS_READ = 1000


def archive_and_drop(month: JournalPartition, *, now: datetime) -> None:
    """Drop a month once the archive has all its events, if archives are on.

    Raises Busy if it has to wait, and OSError or DamagedArchive if the archive can't be written.
    After a run that was cut short the events may be in the archive twice.
    """
    if not month.is_detaching:  # else the archive has it
        try:
            with open_archive(now) as archive:
                if archive:
                    for records in read_events(month):
                        archive.append("event", records)
        except ArchiveBusy as error:
            raise Busy("Another run writes to the archive.") from error
    journal_months.drop_month(month)


def read_events(month: JournalPartition) -> Iterator[list[Record]]:
    """Yield the events of a month, oldest first, some at a time."""
    statement = select_records(
        "event",
        "jsonb_build_object('event', to_jsonb(e))",
        "array[e.id::text, e.subject_id::text]",
        f"(select * from {month.name} where id > %(after)s order by id limit %(most)s::int) e",
        also="e.id as place, ",
    )
    after = FIRST_ID
    while rows := sql.run(statement, after=after, most=EVENTS_READ):
        yield build_records(rows)
        after = max(row["place"] for row in rows)
