"""Retention on the Settings page: the limits, and how the last run ended."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ledger.models import ClockRun
from retries.retention.running import KINDS, archive_folder, is_on


@dataclass(frozen=True, slots=True)
class RetentionStatus:
    """A sentence, and the time that it is about; with a problem it is an error."""

    text: str
    at: datetime | None = None
    is_error: bool = False


def fetch_status() -> RetentionStatus:
    if not is_on():
        return RetentionStatus("Everything is kept.")
    run = ClockRun.objects.filter(name="retention").first()
    if run is None:
        return RetentionStatus("It has not run yet.")
    if error := run.did.get("error"):
        return RetentionStatus(str(error), run.last_run_at, is_error=True)
    return RetentionStatus(describe_run(run.did), run.last_run_at)


def describe_run(did: dict[str, Any]) -> str:
    """Return what a run deleted.

    >>> describe_run({"tasks": 120, "sessions": 1})
    'The last run deleted 120 tasks and 1 session.'
    """
    counts = [(did.get(kind.name, 0), kind.name) for kind in KINDS]
    named = [
        f"{n} {name[:-1] if n == 1 else name}" for n, name in sorted(counts, reverse=True) if n
    ]
    if not named:
        return "The last run found nothing old enough."
    listed = f"{', '.join(named[:-1])} and {named[-1]}" if named[1:] else named[0]
    return f"The last run deleted {listed}."


def describe_archive() -> str:
    folder = archive_folder()
    return f"Archive: {folder}" if folder else "Nothing is archived."
