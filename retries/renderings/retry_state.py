"""`retry-state.json` (pure): what is being tried at the moment."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from textwrap import indent
from typing import Any

from ledger.states import BlockedReason, TaskState
from retries.renderings.labels import moment, one_line

SUMMARY_LENGTH = 500
# what the document calls the states that have but one name; the rest waits for an attempt
STATUSES = {
    TaskState.RUNNING: "executing",
    TaskState.RETRY: "retrying",
    TaskState.ESCALATED: "escalated",
    TaskState.DONE: "done",
    TaskState.SKIPPED: "skipped",
}


@dataclass(frozen=True, slots=True)
class Failed:
    """What went wrong in one attempt."""

    attempt: int
    at: datetime
    failure_type: str
    error: str
    suggested_fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A task that was started and is not over."""

    task_id: str
    task_name: str
    retry_count: int
    max_retries: int
    status: str
    failures: Sequence[Failed]
    current_attempt: int
    started_at: datetime
    last_attempt_at: datetime


@dataclass(frozen=True, slots=True)
class Stats:
    """`total_retries` are attempts beyond the first of their task."""

    total_retries: int
    successful_retries: int
    escalations: int


def status_of(state: str, *, blocked_reason: str | None, retry_count: int) -> str:
    """Where a task stands, in the document's words.

    One that waits for an attempt is `retrying` where the round has failures, else `pending`.

    >>> status_of("queued", blocked_reason=None, retry_count=0)
    'pending'
    """
    if blocked_reason == BlockedReason.REPORTED:
        return "escalated"
    return STATUSES.get(TaskState(state)) or ("retrying" if retry_count else "pending")


def document(entries: Iterable[Entry], stats: Stats) -> Iterator[str]:
    """The document in pieces, so that it need not be held as a whole."""
    yield '{\n  "task_retries": {'
    between, end = "\n", "},\n"
    for entry in entries:
        shown = json.dumps({entry.task_id: written(entry)}, indent=2, ensure_ascii=False)
        # without the braces of the object that is only there for the key
        yield between + indent(shown[2:-2], "  ")
        between, end = ",\n", "\n  },\n"
    stated = json.dumps(asdict(stats), indent=2)
    yield f'{end}  "global_stats": {indent(stated, "  ").lstrip()}\n}}\n'


def written(entry: Entry) -> dict[str, Any]:
    return {
        "task_id": entry.task_id,
        "task_name": entry.task_name,
        "retry_count": entry.retry_count,
        "max_retries": entry.max_retries,
        "status": entry.status,
        "failures": [
            {
                "attempt": failed.attempt,
                "timestamp": moment(failed.at),
                "failure_type": failed.failure_type,
                "error_summary": one_line(failed.error, SUMMARY_LENGTH),
                "suggested_fix": one_line(failed.suggested_fix),
            }
            for failed in entry.failures
        ],
        "current_attempt": entry.current_attempt,
        "started_at": moment(entry.started_at),
        "last_attempt_at": moment(entry.last_attempt_at),
    }
