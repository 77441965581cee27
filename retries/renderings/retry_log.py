"""`retry.log` (pure): the last 7 days, for people and grep."""

from datetime import timedelta

from retries.renderings.labels import moment, one_line
from retries.renderings.log_entries import (
    Answered,
    Attempted,
    Escalated,
    Happening,
    Injected,
    Resolved,
)

WINDOW = timedelta(days=7)
ERROR_LENGTH = 200


def lines(happening: Happening) -> list[str]:
    """The entries of one happening, each ending its line."""
    head = f"[{moment(happening.at)}] [RETRY] [{happening.task_id}]"
    return [f"{head} {body}\n" for body in bodies(happening)]


def bodies(happening: Happening) -> list[str]:
    match happening:
        case Attempted():
            kind = happening.failure_type or "none"
            said = [f"attempt={happening.attempt} status={happening.status} type={kind}"]
            if happening.error:
                said.append(f"error={quoted(happening.error, ERROR_LENGTH)}")
            if happening.suggested_fix:
                said.append(f"suggested_fix={quoted(happening.suggested_fix)}")
            return said
        case Injected():
            return [f"injecting_feedback attempt={happening.attempt}"]
        case Escalated():
            return [f"escalating reason={quoted(happening.reason)}"]
        case Answered():
            return [f"user_response={quoted(happening.response)}"]
        case Resolved():
            return [f"resolved status={happening.status}"]
    raise TypeError(f"the log has no entry for {happening!r}")


def quoted(text: str, most: int | None = None) -> str:
    r"""On one line, in quotes that nothing in it can close.

    >>> print(quoted('no "id"\nat all'))
    "no \"id\" at all"
    """
    said = one_line(text, most).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{said}"'
