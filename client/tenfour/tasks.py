"""Calls about tasks and attempts; each function turns arguments into a Call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypedDict
from urllib.parse import urlencode

from tenfour.api.calls import PAGE, given, page_of, part
from tenfour.attempts.usage import Usage
from tenfour.http.core import Call
from tenfour.http.values import Page, text_of_time
from tenfour.models import Attempt, AttemptOutput, Claimed, Decision, Escalation, Heartbeat, Task

if TYPE_CHECKING:
    from typing_extensions import Unpack

Status = Literal["success", "failure", "blocked"]
OnExhausted = Literal["escalate", "dead_letter"]
Evidence = Literal["record", "ask", "require"]
Reason = Literal["shutdown", "wrong_agent", "user_interrupt"]
ExitOf = Literal["command", "verification"]
Severity = Literal["low", "normal", "high"]
RetryOn = Literal["any", "same", "other"]
OnExpiry = Literal["retry", "fail"]


class Options(TypedDict, total=False):
    """Options of a new task; the server chooses what is missing."""

    title: str | None
    priority: int | None
    needs: Sequence[str] | None
    max_attempts: int | None
    on_exhausted: OnExhausted | None
    evidence: Evidence | None
    retry_on: RetryOn | None
    backoff: Mapping[str, Any] | None
    lease_s: int | None
    timeout_s: int | None
    idempotent: bool | None
    non_retryable: bool | None
    not_before: datetime | str | None
    register: bool | None


def enqueue(
    agent: str,
    type: str,
    payload: Any = None,
    *,
    idempotency_key: str | None = None,
    **options: Unpack[Options],
) -> Call[Task]:
    """Enqueue a task for an agent or a pool.

    Options: title, priority, needs, max_attempts, on_exhausted, evidence, retry_on, backoff,
    lease_s, timeout_s, idempotent, non_retryable, not_before (with a zone), register.
    """
    return Call(
        "POST", "/v1/tasks", Task.read, task(agent, type, payload, **options), {}, idempotency_key
    )


def enqueue_many(
    tasks: Sequence[Mapping[str, Any]], *, idempotency_key: str | None = None
) -> Call[tuple[Task, ...]]:
    """Enqueue several tasks, all or none; each is a mapping from `task`."""
    body = {"tasks": [dict(each) for each in tasks]}
    return Call("POST", "/v1/tasks/bulk", _tasks, body, {}, idempotency_key)


def enqueue_and_claim(
    type: str,
    payload: Any = None,
    *,
    idempotency_key: str | None = None,
    **options: Unpack[Options],
) -> Call[Claimed]:
    """Create a task for the caller's own agent and start it; options as in `enqueue`."""
    body = task(None, type, payload, **options)
    return Call("POST", "/v1/tasks", Claimed.read, body, {"claim": "true"}, idempotency_key)


def task(
    agent: str | None, type: str, payload: Any = None, **options: Unpack[Options]
) -> dict[str, Any]:
    """Return a task as the API expects it."""
    if at := options.get("not_before"):
        options["not_before"] = text_of_time(at)
    return given({"agent": agent, "type": type, "payload": payload, **options})


def get(id: str) -> Call[Task]:
    """Get one task."""
    return Call("GET", f"/v1/tasks/{part(id)}", Task.read)


def tasks(
    *,
    state: str | Iterable[str] | None = None,
    agent: str | None = None,
    pool: str | None = None,
    type: str | None = None,
    q: str | None = None,
    plan: str | None = None,
    ref: str | None = None,
    assignee: str | None = None,
) -> Call[Page[Task]]:
    """List tasks, newest first.

    `state` is one state or several, `q` a part of the title, `plan` a plan's ref or id.
    """
    states = state if state is None or isinstance(state, str) else ",".join(state)
    filters = {"agent": agent, "pool": pool, "type": type, "q": q, "plan": plan, "ref": ref}
    params = given({"state": states, **filters, "assignee": assignee, "limit": str(PAGE)})
    return Call("GET", "/v1/tasks", page_of(Task.read), params=params)


def abort(id: str, *, reason: str | None = None) -> Call[Task]:
    """Abort a task; a running one is told at its next heartbeat. Refused once it is final."""
    return Call("POST", f"/v1/tasks/{part(id)}/abort", Task.read, given({"reason": reason}))


def change(id: str, *, version: int, **changes: Any) -> Call[Task]:
    """Change `priority`, `agent`, `payload`, `max_attempts`, `backoff`, `retry_on` or `not_before`.

    Refused if the task has changed since `version` was read.
    """
    headers = {"If-Match": f'"v{version}"'}
    if changes.get("not_before"):
        changes["not_before"] = text_of_time(changes["not_before"])
    return Call("PATCH", f"/v1/tasks/{part(id)}", Task.read, changes, headers=headers)


def assign(id: str, user: str) -> Call[Task]:
    """Assign a task to a user, or to no one with an empty name."""
    return Call("POST", f"/v1/tasks/{part(id)}/assign", Task.read, {"user": user})


def comment(id: str, text: str, *, idempotency_key: str | None = None) -> Call[Task]:
    """Add a comment to a task's events; a person named as `@name` is notified."""
    path = f"/v1/tasks/{part(id)}/comment"
    return Call("POST", path, Task.read, {"text": text}, idempotency_key=idempotency_key)


def unblock(id: str) -> Call[Task]:
    """Queue a blocked task again."""
    return Call("POST", f"/v1/tasks/{part(id)}/unblock", Task.read, {})


def attempts(id: str) -> Call[Page[Attempt]]:
    """List a task's attempts, newest first."""
    params = {"limit": str(PAGE)}
    return Call("GET", f"/v1/tasks/{part(id)}/attempts", page_of(Attempt.read), params=params)


def claim(
    *,
    worker_id: str | None = None,
    task: str | None = None,
    limit: int | None = None,
    resume: bool | None = None,
    lease_s: int | None = None,
) -> Call[Claimed]:
    """Claim the agent's next task, or the named one, under a lease.

    A worker with a `worker_id` gets back the attempt that it still holds.
    """
    options = {
        "worker_id": worker_id,
        "task": task,
        "limit": limit,
        "resume": resume,
        "lease_s": lease_s,
    }
    return Call("POST", "/v1/claims", Claimed.read, given(options))


def start(id: str, *, worker_id: str | None = None) -> Call[Claimed]:
    """Start one task; refused, and the task blocked, while the agent's breaker is open."""
    body = given({"worker_id": worker_id})
    return Call("POST", f"/v1/tasks/{part(id)}/start", Claimed.read, body)


def attempt(id: str) -> Call[Attempt]:
    """Get one attempt, with its failure and the decision that followed."""
    return Call("GET", f"/v1/attempts/{part(id)}", Attempt.read)


def heartbeat(
    attempt: str,
    *,
    message: str | None = None,
    percent: float | None = None,
    details: Mapping[str, Any] | None = None,
    output: str | None = None,
    extend_s: int | None = None,
    diff: str | None = None,
    environment: Mapping[str, str] | None = None,
    check: str | None = None,
    limits: Sequence[Mapping[str, Any]] | None = None,
    limit_records: Sequence[Mapping[str, Any]] | None = None,
    usage: Usage | None = None,
) -> Call[Heartbeat]:
    """Renew a live attempt's lease and report progress; refused once it has ended.

    `output` are the last lines that the work has printed, for the task's page. `diff` is what it
    has changed in the source, and `environment` where it runs, by name; the next attempt reads
    both. `check` is the command that checks the work. `limits` are windows of the agent's account:
    window (five_hours, week, credit), used (a share), resets_at. `limit_records` tell them as the
    agent's program does: a rate_limit_event, or `{"headers": {…}}` of its model's answer. `usage`
    are the tokens and the cost since the attempt began, which budgets count.
    """
    progress = given({"message": message, "percent": percent, "details": details})
    fields = {"output": output, "extend_s": extend_s, "diff": diff, "environment": environment}
    told = {"limits": limits, "limit_records": limit_records, "usage": usage}
    body = given({"progress": progress or None, **fields, "check": check, **told})
    return Call("POST", f"/v1/attempts/{part(attempt)}/heartbeat", Heartbeat.read, body)


def send_output(attempt: str, at: int, text: str) -> Call[int]:
    """Send what a live attempt has printed after `at` bytes; the result is where to go on from.

    Send the next piece from there: it contains the end of this one again, so that no secret is
    split between two pieces.
    """
    body = {"at": at, "text": text}
    return Call("POST", f"/v1/attempts/{part(attempt)}/output", _next, body)


def output(attempt: str, *, start: int | None = None) -> Call[AttemptOutput]:
    """Read what an attempt has printed, after `start` bytes; `next` is where to read on from.

    The last piece comes again, because it may have grown.
    """
    params = given({"from": start})
    return Call("GET", f"/v1/attempts/{part(attempt)}/output", AttemptOutput.read, params=params)


def report(
    attempt: str,
    status: Status,
    *,
    summary: str | None = None,
    result: Any = None,
    verification: Mapping[str, Any] | None = None,
    failure: Mapping[str, Any] | None = None,
    files_modified: Sequence[Mapping[str, Any]] | None = None,
    learnings: Sequence[str] | None = None,
    usage: Usage | None = None,
    checks: Sequence[Mapping[str, Any]] | None = None,
    tree: Mapping[str, Any] | None = None,
) -> Call[Decision]:
    """Report how an attempt ended; the same report again gets the same decision.

    `usage` are the attempt's tokens and cost: input_tokens, cached_tokens, output_tokens,
    cost_usd, model. `checks` are the commands that checked the work, oldest first, and `tree` the
    files that it left: commit, diff, files.
    """
    options = {
        "status": status,
        "summary": summary,
        "result": result,
        "verification": verification,
        "failure": failure,
        "files_modified": files_modified,
        "learnings": learnings,
        "usage": usage,
        "checks": checks or None,
        "tree": tree,
    }
    return Call("POST", f"/v1/attempts/{part(attempt)}/result", Decision.read, given(options))


def exit(
    attempt: str, code: int, output: str = "", *, of: ExitOf = "command", usage: Usage | None = None
) -> Call[Decision]:
    """Report an exit code and output: of the agent's command, or of the task's verify command."""
    path = f"/v1/attempts/{part(attempt)}/exit/{int(code)}"
    query = given({"of": None if of == "command" else of, **(usage or {})})
    path += f"?{urlencode(query)}" if query else ""
    return Call("POST", path, Decision.read, output)


def release(attempt: str, *, reason: Reason = "shutdown", note: str | None = None) -> Call[Task]:
    """Release a task unfinished; the attempt does not count."""
    body = given({"reason": reason, "note": note})
    return Call("POST", f"/v1/attempts/{part(attempt)}/release", Task.read, body)


class AskOptions(TypedDict, total=False):
    """Options of a question; the server chooses what is missing."""

    # answers to choose from: names, or {"name": …, "title": …, "description": …}
    options: Sequence[str | Mapping[str, Any]]
    # a JSON Schema for the answer: a flat object
    response_schema: Mapping[str, Any] | None
    severity: Severity | None
    # any value, returned with the answer
    client_state: Any
    expires_at: datetime | str | None
    on_expiry: OnExpiry | None
    idempotency_key: str | None


def ask(attempt: str, question: str, **options: Unpack[AskOptions]) -> Call[Escalation]:
    """Ask a person about the task of a live attempt, which ends and does not count.

    Options: options (answers to choose from: names, or {"name": …, "title": …,
    "description": …}), response_schema, severity, client_state, expires_at, on_expiry.
    """
    expires_at = options.get("expires_at")
    choices = [
        {"name": each} if isinstance(each, str) else dict(each)
        for each in options.get("options", ())
    ]
    fields = {
        "question": question,
        "options": choices or None,
        "response_schema": options.get("response_schema"),
        "severity": options.get("severity"),
        "client_state": options.get("client_state"),
        "expires_at": expires_at.isoformat() if isinstance(expires_at, datetime) else expires_at,
        "on_expiry": options.get("on_expiry"),
    }
    path = f"/v1/attempts/{part(attempt)}/escalate"
    return Call(
        "POST", path, Escalation.read, given(fields), idempotency_key=options.get("idempotency_key")
    )


def _next(answer: Any) -> int:
    return int(answer["next"])


def _tasks(answer: Any) -> tuple[Task, ...]:
    return Task.read_all(answer["data"])
