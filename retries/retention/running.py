"""Archive and delete what is older than the settings allow, in small batches.

Each batch is on the disk before its rows are deleted. A run that is killed leaves nothing to clear
up: the next one finds the rows that are still there, and archives them again.
"""

import logging
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings

from ledger.models import Project
from retries.retention import (
    escalation_rows,
    instruction_rows,
    plan_rows,
    session_rows,
    task_rows,
)
from retries.retention.archives import ArchiveBusy, Writer, open_writer
from retries.retention.row_kind import FIRST_ID, RowKind, Scope

logger = logging.getLogger(__name__)

KINDS: Sequence[RowKind] = (
    session_rows.KIND,
    plan_rows.KIND,
    task_rows.KIND,
    task_rows.PAYLOADS,
    instruction_rows.KIND,
    escalation_rows.KIND,
)
OFF = "off"
# A run ends after so long; the next one goes on.
SLICE_SECONDS = 60.0


def archive_folder() -> Path | None:
    """Return the folder of the archives, or None if rows are deleted without one."""
    named: str = settings.TENFOUR["ARCHIVE"]
    if named == OFF:
        return None
    return Path(named) if named else Path(settings.DATA_DIR) / "archive"


def is_on() -> bool:
    """Return whether any kind of rows is ever deleted."""
    return any(settings.TENFOUR[kind.setting] for kind in KINDS)


def delete_old(*, now: datetime, project: Project | None = None) -> dict[str, Any]:
    """Archive and delete rows of all kinds for a while; return how many of each kind went.

    If the archive can't be written, nothing more is deleted.
    """
    did: dict[str, Any] = {kind.name: 0 for kind in KINDS}
    if not is_on():
        return did
    try:
        with open_archive(now) as archive:
            ends_at = time.monotonic() + SLICE_SECONDS
            for kind in KINDS:
                if days := settings.TENFOUR[kind.setting]:
                    before = now - timedelta(days=days)
                    scope = Scope(before, project.pk if project else None)
                    delete_kind(kind, scope, archive, did, ends_at=ends_at)
    except ArchiveBusy:
        did["busy"] = 1  # another run goes on
    except OSError as error:
        did["error"] = f"The archive can't be written: {error}."
        logger.error("Retention stopped. %s", did["error"])
    return did


def open_archive(now: datetime) -> AbstractContextManager[Writer | None]:
    folder = archive_folder()
    return open_writer(folder, now.date()) if folder else nullcontext()


def delete_kind(
    kind: RowKind, scope: Scope, archive: Writer | None, did: dict[str, Any], *, ends_at: float
) -> None:
    """Delete the old rows of a kind, and count them in `did`."""
    after = FIRST_ID
    while time.monotonic() < ends_at and (found := kind.find(after, scope)):
        if found.ids:
            did[kind.name] += delete_batch(kind, found.ids, scope, archive)
        after = found.last


def delete_batch(kind: RowKind, ids: Sequence[UUID], scope: Scope, archive: Writer | None) -> int:
    """Archive rows, then delete those that may still be deleted; return their number."""
    if archive:
        for name, records in kind.read(ids):
            archive.append(name, records)
    return kind.delete(ids, scope)
