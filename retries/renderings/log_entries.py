"""The entries of the logs; both logs render the same ones, so their order and counts agree."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """An event of a task."""

    at: datetime
    task_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEntry(LogEntry):
    """The end of an attempt: success, failed, released, blocked, escalated or aborted."""

    attempt: int
    status: str
    failure_type: str | None = None
    error: str = ""
    suggested_fix: str = ""
    duration_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackEntry(LogEntry):
    """The start of a further attempt, with feedback on the failures before it."""

    attempt: int
    feedback_lines: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EscalationEntry(LogEntry):
    """The escalation of a task to a person."""

    attempts: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerEntry(LogEntry):
    """A person's answer, retry, fix, skip or abort, or the undo of one."""

    response: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolutionEntry(LogEntry):
    """The end of a task: done, skipped, failed or aborted."""

    status: str
    total_attempts: int = 0
    total_duration_ms: int = 0
