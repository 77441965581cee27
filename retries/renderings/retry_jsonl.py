"""Render `retry.jsonl` (pure): the last 30 days for programs, one object per line."""

import json
from datetime import timedelta
from typing import Any

from retries.renderings.log_entries import (
    AnswerEntry,
    AttemptEntry,
    EscalationEntry,
    FeedbackEntry,
    LogEntry,
    ResolutionEntry,
)
from retries.tasks.labels import format_timestamp

WINDOW = timedelta(days=30)

encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
# JSON allows these characters in a string, but some readers end a line at them.
LINE_ENDS = {ord(char): f"\\u{ord(char):04x}" for char in "\x85\u2028\u2029"}


def render_lines(entry: LogEntry) -> list[str]:
    # An answer has no line, because its resolution follows.
    if isinstance(entry, AnswerEntry):
        return []
    event, fields = describe_entry(entry)
    head = {"timestamp": format_timestamp(entry.at), "event": event, "task_id": entry.task_id}
    return [encode(head | fields).translate(LINE_ENDS) + "\n"]


def describe_entry(entry: LogEntry) -> tuple[str, dict[str, Any]]:
    match entry:
        case AttemptEntry():
            return "attempt", {
                "attempt": entry.attempt,
                "status": entry.status,
                "failure_type": entry.failure_type,
                "error": entry.error or None,
                "duration_ms": entry.duration_ms,
            }
        case FeedbackEntry():
            return "feedback_injected", {
                "attempt": entry.attempt,
                "feedback_lines": entry.feedback_lines,
            }
        case EscalationEntry():
            return "escalated", {"attempts": entry.attempts, "reason": entry.reason}
        case ResolutionEntry():
            return "resolved", {
                "resolution": entry.status,
                "total_attempts": entry.total_attempts,
                "total_duration_ms": entry.total_duration_ms,
            }
    raise TypeError(f"the log has no event for {entry!r}")
