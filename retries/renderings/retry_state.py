"""Render `retry-state.json` (pure): the active tasks and their failures."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from textwrap import indent
from typing import Any

from ledger.states import BlockedReason, TaskState
from retries.tasks.labels import format_timestamp, one_line

SUMMARY_LENGTH = 500
# the statuses in the document; in every other state the task waits for an attempt
STATUSES = {
    TaskState.RUNNING: "executing",
    TaskState.RETRY: "retrying",
    TaskState.ESCALATED: "escalated",
    TaskState.DONE: "done",
    TaskState.SKIPPED: "skipped",
}


@dataclass(frozen=True, slots=True)
class AttemptFailure:
    """The failure of one attempt."""

    attempt: int
    at: datetime
    failure_type: str
    error: str
    suggested_fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveTask:
    """A task that has started and is not final."""

    task_id: str
    task_name: str
    retry_count: int
    max_retries: int
    status: str
    failures: Sequence[AttemptFailure]
    current_attempt: int
    started_at: datetime
    last_attempt_at: datetime


@dataclass(frozen=True, slots=True)
class GlobalStats:
    """The numbers of a document; `total_retries` are the attempts after each task's first."""

    total_retries: int
    successful_retries: int
    escalations: int


def status_of(state: str, *, blocked_reason: str | None, retry_count: int) -> str:
    """Return the status of a task.

    A task that waits for an attempt is `retrying` if it failed in this round, else `pending`.

    >>> status_of("queued", blocked_reason=None, retry_count=0)
    'pending'
    """
    if blocked_reason == BlockedReason.REPORTED:
        return "escalated"
    return STATUSES.get(TaskState(state)) or ("retrying" if retry_count else "pending")


def render_document(tasks: Iterable[ActiveTask], stats: GlobalStats) -> Iterator[str]:
    # The document comes in pieces, so that memory never holds all of it.
    yield '{\n  "task_retries": {'
    between, end = "\n", "},\n"
    for task in tasks:
        text = json.dumps({task.task_id: serialize_task(task)}, indent=2, ensure_ascii=False)
        # The outer braces belong to the object that only holds the key.
        yield between + indent(text[2:-2], "  ")
        between, end = ",\n", "\n  },\n"
    numbers = json.dumps(asdict(stats), indent=2)
    yield f'{end}  "global_stats": {indent(numbers, "  ").lstrip()}\n}}\n'


def serialize_task(task: ActiveTask) -> dict[str, Any]:
    return {
        "task_id": task.task_id,
        "task_name": task.task_name,
        "retry_count": task.retry_count,
        "max_retries": task.max_retries,
        "status": task.status,
        "failures": [
            {
                "attempt": failed.attempt,
                "timestamp": format_timestamp(failed.at),
                "failure_type": failed.failure_type,
                "error_summary": one_line(failed.error, SUMMARY_LENGTH),
                "suggested_fix": one_line(failed.suggested_fix),
            }
            for failed in task.failures
        ],
        "current_attempt": task.current_attempt,
        "started_at": format_timestamp(task.started_at),
        "last_attempt_at": format_timestamp(task.last_attempt_at),
    }
