"""Retention on the Settings page: the limits, and how the last run ended."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings

from ledger.models import ClockRun
from retries.retention.running import KINDS, archive_folder, is_on


@dataclass(frozen=True, slots=True)
class RetentionStatus:
    """A sentence, and the time that it is about; with a problem it is an error."""

    text: str
    at: datetime | None = None
    is_error: bool = False


def fetch_status() -> RetentionStatus:
    runs = {each.name: each for each in ClockRun.objects.filter(name__in=("retention", "journal"))}
    for each in runs.values():
        if error := each.did.get("error"):
            return RetentionStatus(str(error), each.last_run_at, is_error=True)
    if not is_on():
        return RetentionStatus(describe_default())
    run = runs.get("retention")
    if run is None:
        return RetentionStatus("It has not run yet.")
    return RetentionStatus(describe_run(run.did), run.last_run_at)


def describe_default() -> str:
    """Return what is kept where no kind of rows is ever deleted."""
    days = settings.TENFOUR["EVENT_DAYS"]
    journal = f", except journal months that are older than {days} days" if days else ""
    return f"Everything is kept{journal}."


def describe_run(did: dict[str, Any]) -> str:
    """Return what a run deleted, and whether the next one continues its search.

    >>> describe_run({"tasks": 120, "sessions": 1})
    'The last run deleted 120 tasks and 1 session.'
    >>> describe_run({"tasks": 120, "resume_after": {"tasks": "…"}})
    'The last run deleted 120 tasks. The next run continues.'
    """
    continues = " The next run continues." if did.get("resume_after") else ""
    counts = [(did.get(kind.name, 0), kind.name) for kind in KINDS]
    named = [
        f"{n} {name[:-1] if n == 1 else name}" for n, name in sorted(counts, reverse=True) if n
    ]
    if not named:
        return f"The last run found nothing old enough.{continues}"
    listed = f"{', '.join(named[:-1])} and {named[-1]}" if named[1:] else named[0]
    return f"The last run deleted {listed}.{continues}"


def describe_archive() -> str:
    folder = archive_folder()
    return f"Archive: {folder}" if folder else "Nothing is archived."
