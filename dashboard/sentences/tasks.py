"""Describe why a task moved, and why a breaker opened, as one clause (pure)."""

from datetime import UTC, datetime
from typing import Any

from ledger.journal import Kind
from ledger.models import Event
from ledger.states import BlockedReason
from ledger.values.text import truncate

PAYLOAD_SHOWN = 5  # changes
FILES_SHOWN = 3
VALUE_LENGTH = 80

# why a task is blocked, escalated or given up; follows a colon
REASONS = {
    "dependency": "waiting for another task",
    "dependency_skipped": "a task it needs was skipped",
    "breaker_open": "its agent’s breaker is open",
    "not_before": "its start is set for later",
    "became_checkpoint": "its plan made it a checkpoint",
    "reported": "reported blocked by its agent",
    "blocked": "reported blocked by its agent",
    "max_retries_exceeded": "no attempts left",
    "attempts_left": "attempts left",
    "non_retryable": "a retry would not help",
    "malformed_task": "its agent can’t read it",
    "permission_denied": "permission denied",
    "service_unavailable": "a service is unavailable",
    "conflicting_requirements": "its requirements conflict",
    "impossible": "its agent reported that it is impossible",
    "needs_confirmation": "it is unknown whether the work was done",
    "releases_exhausted": "released too many times",
    "session_unused": "nothing followed in its agent’s session",
    "agent_question": "its agent asked a question",
    "questions_exhausted": "its agent asked again after several questions without an answer",
    "needs_quota": "a quota or credit is used up",
    "needs_credentials": "credentials are missing or wrong",
    "needs_permission": "a permission is missing",
    "permission_request": "its agent asks whether it may make a call",
    "no_retry_helps": "a retry can’t change what failed",
    "agent_waits": "its agent waits for a limit of its account to reset",
    "budget_used": "a budget is used up",
    "same_failure_again": "the same error came back and no file had changed",
    "unproven": "its agent says that it is done, without proof",
    "expired": "no answer in time",
}
ANSWERS = {
    "retry": "answered: retry",
    "fix": "answered with a fix",
    "answer": "answered the question",
    "fail": "gave up, because there was no answer in time",
    "skip": "answered: skip",
    "abort": "answered: abort",
    "accept": "accepted it as done",
    "allow": "allowed the call",
    "deny": "denied the call",
    "grant": "granted more of the budget",
}


def describe_reason(data: dict[str, Any]) -> str:
    reason = str(data.get("reason") or data.get("blocked_reason") or "")
    return REASONS.get(reason, reason.replace("_", " "))


def describe_failure(data: dict[str, Any]) -> str:
    """Return a clause such as "Attempt 2 failed: timeout, lease_expired"."""
    kinds = [str(data[name]) for name in ("failure_type", "code") if data.get(name)]
    kinds = [kind for kind in kinds if kind != data.get("reason")]
    number = f"Attempt {data['attempt']}" if data.get("attempt") else "An attempt"
    return f"{number} failed: {', '.join(kinds)}" if kinds else f"{number} failed"


# what agents and people did to a task, for its history
BY_AGENT = {
    Kind.TASK_CLAIMED: "Claimed",
    Kind.TASK_COMPLETED: "Completed",
    Kind.TASK_RELEASED: "Released",
}
BY_ACTOR = {
    Kind.TASK_REQUEUED: "queued it again",
    Kind.TASK_ANSWER_UNDONE: "undid the answer",
    Kind.TASK_SKIPPED: "skipped it",
    Kind.TASK_REPLAYED: "replayed it as a new task",
    Kind.TASK_DISMISSED: "dismissed its dead letter",
}


def describe_cause(event: Event, *, agent: str) -> str:
    data, who = event.data, event.actor_name or event.actor_type
    if data.get("answer") in ANSWERS:
        return f"{who} {ANSWERS[data['answer']]}"
    if event.kind == Kind.TASK_COMPLETED and data.get("ticked"):
        return f"{who} imported a file that marks it as done"
    if event.kind in BY_AGENT:
        attempt = f", attempt {data['attempt']}" if data.get("attempt") else ""
        return f"{BY_AGENT[Kind(event.kind)]} by {agent}{attempt}"
    match event.kind:
        case Kind.TASK_CREATED:
            waits = ", waiting for other tasks" if event.to_state == "blocked" else ""
            if data.get("reason") == BlockedReason.NOT_BEFORE:
                waits = ", waiting for its start time"
            return f"Enqueued by {who}{waits}"
        case Kind.TASK_RETRY_SCHEDULED:
            return f"{describe_failure(data)}; attempts left{evidence_suffix(data)}"
        case Kind.TASK_DUE:
            return f"{who} retried it now" if data.get("by_hand") else "The retry is due"
        case Kind.TASK_UNBLOCKED if data.get("without"):
            return "Continues without a task it needs, which may fail"
        case Kind.TASK_UNBLOCKED:
            return "All needs are met"
        case Kind.TASK_BLOCKED | Kind.TASK_ESCALATED:
            first = "its plan asks a question" if event.kind == Kind.TASK_ESCALATED else ""
            said = describe_reason(data) or first or "waiting for another task"
            failed = f"{describe_failure(data)}; " if data.get("failure_type") else ""
            text = f"{failed}{said}{evidence_suffix(data)}"
            return text[:1].upper() + text[1:]
        case Kind.TASK_FAILED:
            reason = describe_reason(data)
            return f"{describe_failure(data)}; gave up{f', {reason}' if reason else ''}"
        case Kind.TASK_SKIPPED if data.get("because"):
            return f"{who} skipped it with a task it needs"
        case Kind.TASK_ABORTED:
            by_person = event.actor_type == "user"
            stopped = f"{who} stopped it" if by_person else "Stopped as requested"
            return f"{stopped}{note_suffix(data)}"
        case Kind.TASK_REPORTED_LATE:
            return describe_late_report(data, agent=agent)
        case Kind.TASK_FILES_OUTSIDE:
            return f"{agent} {describe_outside(data)}, attempt {data.get('attempt')}"
        case Kind.TASK_CHANGED:
            return f"{who} {describe_change(data)}"
        case Kind.TASK_REPLAYED if data.get("changed", ["payload"]) != ["payload"]:
            return f"{who} replayed it as a new task and {describe_change(data)}"
        case Kind.TASK_REPLAYED if data.get("payload"):
            return f"{who} replayed it as a new task with another {describe_payload(data)}"
        case Kind.TASK_ASSIGNED:
            return f"{who} assigned it to {data.get('user') or 'no one'}"
        case Kind.TASK_COMMENTED:
            return f"{who}: {data.get('text')}"
        case Kind.TASK_ABORT_REQUESTED:
            return f"{who} asked it to stop{note_suffix(data)}"
    return f"{who} {BY_ACTOR[Kind(event.kind)]}" if event.kind in BY_ACTOR else event.kind


def describe_late_report(data: dict[str, Any], *, agent: str) -> str:
    """Return what an agent reported after its attempt was taken away.

    >>> late = {"attempt": 1, "status": "success", "summary": "Wrote it.", "exit_code": 0}
    >>> describe_late_report(late, agent="coder")
    'coder reported attempt 1 too late: success, exit code 0. Wrote it.'
    """
    code = f", exit code {data['exit_code']}" if "exit_code" in data else ""
    summary = f" {data['summary']}" if data.get("summary") else ""
    number, status = data.get("attempt"), data.get("status")
    return f"{agent} reported attempt {number} too late: {status}{code}.{summary}"


def describe_outside(data: dict[str, Any]) -> str:
    """Return which files outside of the task's files an attempt changed.

    >>> describe_outside({"count": 4, "files": ["a.py", "b.py", "c.py", "d.py"]})
    'changed 4 files outside of the task’s files: a.py, b.py, c.py and 1 more'
    """
    count = int(data.get("count") or 0)
    shown = [truncate(str(path), VALUE_LENGTH) for path in data.get("files", [])[:FILES_SHOWN]]
    more = f" and {count - len(shown)} more" if count > len(shown) else ""
    files = "1 file" if count == 1 else f"{count} files"
    return f"changed {files} outside of the task’s files: {', '.join(shown)}{more}"


def describe_change(data: dict[str, Any]) -> str:
    """Return what a person or a program changed.

    >>> describe_change({"changed": ["priority", "max_attempts"]})
    'changed priority, max attempts'
    >>> describe_change({"changed": ["priority"], "from_agent": "a", "to_agent": "b"})
    'reassigned it from a to b and changed priority'
    """
    names = name_changes(data)
    changed = f"changed {names}" if names else ""
    if not data.get("to_agent"):
        return changed or "changed it"
    reassigned = f"reassigned it from {data['from_agent']} to {data['to_agent']}"
    return " and ".join(filter(None, (reassigned, changed)))


def describe_payload(data: dict[str, Any]) -> str:
    """Return what differs between two payloads.

    >>> changes = [{"path": "/to", "old": "a", "new": "b"}, {"path": "/cc", "new": "c"}]
    >>> describe_payload({"payload": changes, "payload_changes": 4})
    'payload: /to from “a” to “b”, /cc to “c” and 2 more'
    """
    shown = [describe_value(each) for each in data["payload"][:PAYLOAD_SHOWN]]
    more = data["payload_changes"] - len(shown)
    return f"payload: {', '.join(shown)}{f' and {more} more' if more else ''}"


def describe_value(change: dict[str, Any]) -> str:
    path = change["path"] or "all of it"
    was, now = (f"“{truncate(str(change.get(name)), VALUE_LENGTH)}”" for name in ("old", "new"))
    if "new" not in change:
        return f"{path} removed"
    return f"{path} from {was} to {now}" if "old" in change else f"{path} to {now}"


def name_changes(data: dict[str, Any]) -> str:
    names = [str(name) for name in data.get("changed", [])]
    values = data.get("values") or {}
    names = [describe_values(name, values[name]) if name in values else name for name in names]
    if data.get("payload"):
        names = [describe_payload(data) if name == "payload" else name for name in names]
    # The sentence names the agents itself.
    if data.get("to_agent"):
        names = [name for name in names if name != "agent"]
    return ", ".join(
        name if name.startswith("payload:") else name.replace("_", " ") for name in names
    )


def describe_values(name: str, both: dict[str, Any]) -> str:
    """Return the value before and after, if both are known.

    >>> describe_values("max_attempts", {"old": 3, "new": 5})
    'max_attempts from 3 to 5'
    >>> describe_values("not_before", {"old": None, "new": "2026-12-01T10:00:00+00:00"})
    'not_before to 2026-12-01 10:00 UTC'
    """
    was, now = (describe_plain(both.get(each)) for each in ("old", "new"))
    return f"{name} from {was} to {now}" if was else f"{name} to {now}"


def describe_plain(value: Any) -> str:
    if not isinstance(value, str):
        return "" if value is None else str(value)
    return f"{datetime.fromisoformat(value).astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def evidence_suffix(data: dict[str, Any]) -> str:
    """Return what a policy's decision rests on: the line of the error, and the wait it names."""
    evidence = data.get("evidence") or {}
    if not evidence.get("line"):
        return ""
    same = f" (same as attempt {evidence['same_as']})" if evidence.get("same_as") else ""
    known = f" (known error “{evidence['title']}”)" if evidence.get("title") else ""
    wait = f"; waits {data['delay_s']:g} s, as the error says" if data.get("delay_s") else ""
    return f"{wait}{same}{known}: {evidence['line']}"


def note_suffix(data: dict[str, Any]) -> str:
    return f": {data['note']}" if data.get("note") else ""


def describe_cause_briefly(event: Event, *, agent: str) -> str:
    reason = describe_reason(event.data)
    if event.kind in (Kind.TASK_ESCALATED, Kind.TASK_FAILED) and reason:
        return f"{'gave up' if event.kind == Kind.TASK_FAILED else 'escalated'}, {reason}"
    if event.kind == Kind.TASK_RETRY_SCHEDULED:
        return describe_failure(event.data)
    return describe_cause(event, agent=agent)


def breaker_reason(data: dict[str, Any]) -> str:
    return str(data.get("reason") or "").replace("_", " ")
