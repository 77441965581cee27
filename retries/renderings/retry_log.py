"""Render `retry.log` (pure): the last 7 days, for people and grep."""

from datetime import timedelta

from retries.renderings.log_entries import (
    AnswerEntry,
    AttemptEntry,
    EscalationEntry,
    FeedbackEntry,
    LogEntry,
    ResolutionEntry,
)
from retries.tasks.labels import format_timestamp, one_line

WINDOW = timedelta(days=7)
ERROR_LENGTH = 200


def render_lines(entry: LogEntry) -> list[str]:
    head = f"[{format_timestamp(entry.at)}] [RETRY] [{entry.task_id}]"
    return [f"{head} {text}\n" for text in describe_entry(entry)]


def describe_entry(entry: LogEntry) -> list[str]:
    match entry:
        case AttemptEntry():
            kind = entry.failure_type or "none"
            texts = [f"attempt={entry.attempt} status={entry.status} type={kind}"]
            if entry.error:
                texts.append(f"error={quote(entry.error, ERROR_LENGTH)}")
            if entry.suggested_fix:
                texts.append(f"suggested_fix={quote(entry.suggested_fix)}")
            return texts
        case FeedbackEntry():
            return [f"injecting_feedback attempt={entry.attempt}"]
        case EscalationEntry():
            return [f"escalating reason={quote(entry.reason)}"]
        case AnswerEntry():
            return [f"user_response={quote(entry.response)}"]
        case ResolutionEntry():
            return [f"resolved status={entry.status}"]
    raise TypeError(f"the log has no entry for {entry!r}")


def quote(text: str, most: int | None = None) -> str:
    r"""Return the text on one line in quotes, with the quotes in it escaped.

    >>> print(quote('no "id"\nat all'))
    "no \"id\" at all"
    """
    escaped = one_line(text, most).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
