"""Archive and delete what is older than the settings allow, in small batches.

Each batch is on the disk before its rows are deleted. A run that is killed leaves nothing to clear
up: the next one finds the rows that are still there, and archives them again.
"""

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings

from ledger.models import ClockRun, Project
from retries.retention import (
    escalation_rows,
    instruction_rows,
    plan_rows,
    session_rows,
    task_rows,
    trace_rows,
)
from retries.retention.archives import ROWS, ArchiveBusy, Writer, open_writer
from retries.retention.pace import Pace
from retries.retention.row_kind import FIRST_ID, RowKind, Scope

logger = logging.getLogger(__name__)

KINDS: Sequence[RowKind] = (
    session_rows.KIND,
    plan_rows.KIND,
    task_rows.KIND,
    task_rows.PAYLOADS,
    instruction_rows.KIND,
    escalation_rows.KIND,
    escalation_rows.PERMISSIONS,
    trace_rows.KIND,
)
OFF = "off"
# A run ends after about this long; the next one continues.
SLICE_SECONDS = 60.0
# Deleting also makes work for autovacuum. Without rests, a claim beside a run took 1.8 times as
# long at the 95th percentile, on two processors.
REST_SHARE = 3.0
FIRST = str(FIRST_ID)


def archive_folder() -> Path | None:
    """Return the archives' folder, or None if rows are deleted without an archive."""
    named: str = settings.TENFOUR["ARCHIVE"]
    if named == OFF:
        return None
    return Path(named) if named else Path(settings.DATA_DIR) / "archive"


def is_on() -> bool:
    return any(settings.TENFOUR[kind.setting] for kind in KINDS)


def delete_old(*, now: datetime, project: Project | None = None) -> dict[str, Any]:
    """Archive and delete rows of all kinds for a while; return how many of each kind.

    `resume_after` has the kinds that were not searched to the end, with the last id of the search:
    the next run continues there. If the archive can't be written, nothing more is deleted.
    """
    did: dict[str, Any] = {kind.name: 0 for kind in KINDS}
    bounds = list_bounds(now, project)
    if not bounds:
        return did
    resume_after = {} if project else fetch_positions(bounds)
    try:
        with open_archive(now, ROWS) as archive:
            Run(bounds, archive, did, resume_after).delete_all()
    except ArchiveBusy:
        did["busy"] = 1  # another run is in progress
    except OSError as error:
        did["error"] = f"The archive can't be written: {error}."
        logger.error("Retention stopped. %s", did["error"])
    return did | ({"resume_after": resume_after} if resume_after else {})


def list_bounds(now: datetime, project: Project | None) -> dict[str, Scope]:
    """Return the scope of old rows for each kind that is ever deleted."""
    return {
        kind.name: Scope(now - timedelta(days=days), project.pk if project else None)
        for kind in KINDS
        if (days := settings.TENFOUR[kind.setting])
    }


def fetch_positions(names: Collection[str]) -> dict[str, str]:
    """Return where the last run stopped in each of these kinds that it did not finish."""
    last = ClockRun.objects.filter(name="retention").values_list("did", flat=True).first() or {}
    stored: dict[str, str] = last.get("resume_after", {})
    return {name: id for name, id in stored.items() if name in names}


def open_archive(now: datetime, part: str) -> AbstractContextManager[Writer | None]:
    folder = archive_folder()
    return open_writer(folder, now.date(), part) if folder else nullcontext()


@dataclass(frozen=True, slots=True)
class Run:
    """One run: the rows that it may delete, the counts, and where it stopped in each kind."""

    bounds: Mapping[str, Scope]
    archive: Writer | None
    did: dict[str, Any]
    resume_after: dict[str, str]

    def delete_all(self) -> None:
        # Each kind gets its share of the time, and at least one search. The time that one does not
        # need goes to the others.
        ends_at = time.monotonic() + SLICE_SECONDS
        left = [kind for kind in KINDS if kind.name in self.bounds]
        while left:
            unfinished = []
            for number, kind in enumerate(left):
                began = time.monotonic()
                share = (ends_at - began) / (len(left) - number)
                if not self.delete_kind(kind, ends_at=began + share):
                    unfinished.append(kind)
            left = unfinished if time.monotonic() < ends_at else []

    def delete_kind(self, kind: RowKind, *, ends_at: float) -> bool:
        """Delete old rows of a kind; return whether it was searched to the end."""
        # The search continues where the last one stopped, so that rows that must stay do not block
        # the rows after them. After the end, it begins with the oldest row again.
        scope, pace = self.bounds[kind.name], Pace(REST_SHARE)
        while found := kind.find(UUID(self.resume_after.get(kind.name, FIRST)), scope):
            if found.ids:
                self.did[kind.name] += delete_batch(kind, found.ids, scope, self.archive)
            self.resume_after[kind.name] = str(found.last)
            if time.monotonic() >= ends_at:
                return False
            pace.rest()
        self.resume_after.pop(kind.name, None)
        return True


def delete_batch(kind: RowKind, ids: Sequence[UUID], scope: Scope, archive: Writer | None) -> int:
    """Archive rows, then delete the rows that may still be deleted; return how many."""
    if archive:
        for records in kind.read(ids):
            archive.append(records)
    return kind.delete(ids, scope)
