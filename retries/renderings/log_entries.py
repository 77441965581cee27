"""What the two logs tell: both render the same happenings, so that they agree in order and counts.

Times are moments of UTC, durations whole milliseconds.
"""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """Something that happened to a task."""

    at: datetime
    task_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempted(Happening):
    """An attempt has ended: success, failed, released, blocked, escalated or aborted."""

    attempt: int
    status: str
    failure_type: str | None = None
    error: str = ""
    suggested_fix: str = ""
    duration_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Injected(Happening):
    """A further attempt has begun, and was told what went wrong before."""

    attempt: int
    feedback_lines: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalated(Happening):
    """A person is asked."""

    attempts: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Happening):
    """A person has answered: retry, fix, skip or abort."""

    response: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved(Happening):
    """The task is over: done, skipped, failed or aborted."""

    status: str
    total_attempts: int = 0
    total_duration_ms: int = 0
