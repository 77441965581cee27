"""The journal of tasks and breakers in words (pure): why a task moved, as one clause."""

from typing import Any

from ledger.journal import Kind
from ledger.models import Event

# why something is blocked, escalated or given up, after "because"
REASONS = {
    "dependency": "it waits for another task",
    "dependency_skipped": "what it needs was skipped",
    "breaker_open": "its agent’s breaker is open",
    "reported": "its agent says that it can’t go on",
    "blocked": "its agent says that it can’t go on",
    "max_retries_exceeded": "no attempt is left",
    "attempts_left": "an attempt is left",
    "non_retryable": "another attempt would not help",
    "malformed_task": "its agent can’t read it",
    "permission_denied": "permission was denied",
    "service_unavailable": "a service is away",
    "conflicting_requirements": "what it asks for contradicts itself",
    "impossible": "its agent says that it is impossible",
    "needs_confirmation": "nobody knows whether it was done",
    "releases_exhausted": "it was put back too often",
    "agent_question": "its agent asks a question",
    "expired": "nobody answered in time",
}
ANSWERS = {
    "retry": "answered: try again",
    "fix": "answered with other words",
    "answer": "answered its question",
    "fail": "had it given up, because nobody answered in time",
    "skip": "answered: go on without it",
    "abort": "answered: stop it",
}


def describe_reason(data: dict[str, Any]) -> str:
    """The reason in words; one that has none as it is."""
    reason = str(data.get("reason") or data.get("blocked_reason") or "")
    return REASONS.get(reason, reason.replace("_", " "))


def describe_failure(data: dict[str, Any]) -> str:
    """Attempt 2 failed: timeout, lease_expired."""
    kinds = [str(data[name]) for name in ("failure_type", "code") if data.get(name)]
    kinds = [kind for kind in kinds if kind != data.get("reason")]
    number = f"Attempt {data['attempt']}" if data.get("attempt") else "An attempt"
    return f"{number} failed: {', '.join(kinds)}" if kinds else f"{number} failed"


def describe_cause(event: Event, *, agent: str) -> str:
    """What made a task move, for its history."""
    data, who = event.data, event.actor_name or event.actor_type
    by_person = event.actor_type == "user"
    attempt = f", attempt {data['attempt']}" if data.get("attempt") else ""
    if data.get("answer") in ANSWERS:
        return f"{who} {ANSWERS[data['answer']]}"
    match event.kind:
        case Kind.TASK_CREATED:
            waits = ", and waits for others" if event.to_state == "blocked" else ""
            return f"Enqueued by {who}{waits}"
        case Kind.TASK_CLAIMED:
            return f"{agent} took it{attempt}"
        case Kind.TASK_COMPLETED:
            return f"{agent} finished it{attempt}"
        case Kind.TASK_RETRY_SCHEDULED:
            return f"{describe_failure(data)}; an attempt is left"
        case Kind.TASK_DUE:
            return f"{who} hurried its retry" if data.get("by_hand") else "Its retry has come due"
        case Kind.TASK_RELEASED:
            return f"{agent} put it back{attempt}"
        case Kind.TASK_UNBLOCKED if data.get("without"):
            return "It goes on without what it needs, which may fail"
        case Kind.TASK_UNBLOCKED:
            return "Nothing stands in its way any more"
        case Kind.TASK_BLOCKED | Kind.TASK_ESCALATED:
            first = "its plan asks a person" if event.kind == Kind.TASK_ESCALATED else ""
            said = describe_reason(data) or first or "something else comes first"
            failed = f"{describe_failure(data)}; " if data.get("failure_type") else ""
            return f"{failed}{said}"[:1].upper() + f"{failed}{said}"[1:]
        case Kind.TASK_REQUEUED:
            return f"{who} queued it again"
        case Kind.TASK_FAILED:
            reason = describe_reason(data)
            return f"{describe_failure(data)}; given up{f', {reason}' if reason else ''}"
        case Kind.TASK_ANSWER_UNDONE:
            return f"{who} took the answer back"
        case Kind.TASK_SKIPPED if data.get("because"):
            return f"{who} goes on without it and what it needs"
        case Kind.TASK_SKIPPED:
            return f"{who} goes on without it"
        case Kind.TASK_ABORTED:
            return (f"{who} stopped it" if by_person else "Stopped, as was asked") + note_suffix(
                data
            )
        case Kind.TASK_CHANGED:
            names = ", ".join(str(name) for name in data.get("changed", []))
            return f"{who} changed {names}".replace("_", " ")
        case Kind.TASK_ABORT_REQUESTED:
            return f"{who} asked it to stop{note_suffix(data)}"
        case Kind.TASK_REPLAYED:
            return f"{who} replayed it as a new task"
        case Kind.TASK_DISMISSED:
            return f"{who} dismissed its dead letter"
    return event.kind


def note_suffix(data: dict[str, Any]) -> str:
    """What was said with it."""
    return f": {data['note']}" if data.get("note") else ""


def describe_cause_briefly(event: Event, *, agent: str) -> str:
    """The same for a line of the log, where there is less room."""
    reason = describe_reason(event.data)
    if event.kind in (Kind.TASK_ESCALATED, Kind.TASK_FAILED) and reason:
        return f"{'given up' if event.kind == Kind.TASK_FAILED else 'needs a person'}, {reason}"
    if event.kind == Kind.TASK_RETRY_SCHEDULED:
        return describe_failure(event.data)
    return describe_cause(event, agent=agent)


def breaker_reason(data: dict[str, Any]) -> str:
    """Why a breaker opened, as it was told then."""
    return str(data.get("reason") or "").replace("_", " ")
