"""`retry.jsonl` (pure): the last 30 days, one object a line, for programs."""

import json
from datetime import timedelta
from typing import Any

from retries.renderings.labels import moment
from retries.renderings.log_entries import (
    Answered,
    Attempted,
    Escalated,
    Happening,
    Injected,
    Resolved,
)

WINDOW = timedelta(days=30)

encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
# JSON allows them in a string, but many a reader ends a line there
LINE_ENDS = {ord(char): f"\\u{ord(char):04x}" for char in "\x85\u2028\u2029"}


def lines(happening: Happening) -> list[str]:
    """The line of one happening; an answer has none, its resolution tells of it."""
    if isinstance(happening, Answered):
        return []
    event, told = fields(happening)
    head = {"timestamp": moment(happening.at), "event": event, "task_id": happening.task_id}
    return [encode(head | told).translate(LINE_ENDS) + "\n"]


def fields(happening: Happening) -> tuple[str, dict[str, Any]]:
    match happening:
        case Attempted():
            return "attempt", {
                "attempt": happening.attempt,
                "status": happening.status,
                "failure_type": happening.failure_type,
                "error": happening.error or None,
                "duration_ms": happening.duration_ms,
            }
        case Injected():
            return "feedback_injected", {
                "attempt": happening.attempt,
                "feedback_lines": happening.feedback_lines,
            }
        case Escalated():
            return "escalated", {"attempts": happening.attempts, "reason": happening.reason}
        case Resolved():
            return "resolved", {
                "resolution": happening.status,
                "total_attempts": happening.total_attempts,
                "total_duration_ms": happening.total_duration_ms,
            }
    raise TypeError(f"the log has no event for {happening!r}")
