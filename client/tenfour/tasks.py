"""The calls about tasks and attempts, one function each: arguments in, a Call out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack

from tenfour.calls import PAGE, given, page_of, part
from tenfour.core import Call, new_key
from tenfour.models import Attempt, Claimed, Decision, Heartbeat, Page, Task

Status = Literal["success", "failure", "blocked"]
OnExhausted = Literal["escalate", "dead_letter"]
Reason = Literal["shutdown", "wrong_agent", "user_interrupt"]


class Options(TypedDict, total=False):
    """What may be said of a new task; the rest is left to the server."""

    title: str | None
    priority: int | None
    needs: Sequence[str] | None
    max_attempts: int | None
    on_exhausted: OnExhausted | None
    backoff: Mapping[str, Any] | None
    lease_s: int | None
    timeout_s: int | None
    idempotent: bool | None
    non_retryable: bool | None
    register: bool | None


def enqueue(
    agent: str,
    type: str,
    payload: Any = None,
    *,
    idempotency_key: str | None = None,
    **options: Unpack[Options],
) -> Call[Task]:
    """Puts a task into an agent's queue.

    Options: title, priority, needs, max_attempts, on_exhausted, backoff, lease_s, timeout_s,
    idempotent, non_retryable, register.
    """
    key = idempotency_key or new_key()
    return Call("POST", "/v1/tasks", Task.read, task(agent, type, payload, **options), {}, key)


def enqueue_many(
    tasks: Sequence[Mapping[str, Any]], *, idempotency_key: str | None = None
) -> Call[tuple[Task, ...]]:
    """Puts several tasks into queues, all or none; each is what `task` makes."""
    body = {"tasks": [dict(each) for each in tasks]}
    key = idempotency_key or new_key()
    return Call("POST", "/v1/tasks/bulk", _tasks, body, {}, key)


def enqueue_and_claim(
    type: str,
    payload: Any = None,
    *,
    idempotency_key: str | None = None,
    **options: Unpack[Options],
) -> Call[Claimed]:
    """Makes a task for the caller's own agent and starts it, in one call; options as `enqueue`."""
    body = task(None, type, payload, **options)
    key = idempotency_key or new_key()
    return Call("POST", "/v1/tasks", Claimed.read, body, {"claim": "true"}, key)


def task(
    agent: str | None, type: str, payload: Any = None, **options: Unpack[Options]
) -> dict[str, Any]:
    """A task as the API takes it."""
    return given({"agent": agent, "type": type, "payload": payload, **options})


def get(id: str) -> Call[Task]:
    """One task as it is now."""
    return Call("GET", f"/v1/tasks/{part(id)}", Task.read)


def tasks(
    *,
    state: str | Iterable[str] | None = None,
    agent: str | None = None,
    type: str | None = None,
    q: str | None = None,
    plan: str | None = None,
    ref: str | None = None,
) -> Call[Page[Task]]:
    """Tasks, newest first.

    `state` is one state or several, `q` a part of the title, `plan` a plan's ref or id.
    """
    states = state if state is None or isinstance(state, str) else ",".join(state)
    asked = {"state": states, "agent": agent, "type": type, "q": q, "plan": plan, "ref": ref}
    params = given({**asked, "limit": str(PAGE)})
    return Call("GET", "/v1/tasks", page_of(Task.read), params=params)


def abort(id: str, *, reason: str | None = None) -> Call[Task]:
    """Stops a task; one that runs is told at its next heartbeat. Refused once it is final."""
    return Call("POST", f"/v1/tasks/{part(id)}/abort", Task.read, given({"reason": reason}))


def claim(
    *,
    worker_id: str | None = None,
    task: str | None = None,
    limit: int | None = None,
    resume: bool | None = None,
    lease_s: int | None = None,
) -> Call[Claimed]:
    """Takes the next task of this agent, or the one named; it runs under a lease from now on.

    A worker that names itself gets back what it still holds.
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
    """Starts one task; refused, and the task blocked, while the agent's breaker is open."""
    body = given({"worker_id": worker_id})
    return Call("POST", f"/v1/tasks/{part(id)}/start", Claimed.read, body)


def attempt(id: str) -> Call[Attempt]:
    """One attempt, with its failure and the decision that followed."""
    return Call("GET", f"/v1/attempts/{part(id)}", Attempt.read)


def heartbeat(
    attempt: str,
    *,
    message: str | None = None,
    percent: float | None = None,
    details: Mapping[str, Any] | None = None,
    extend_s: int | None = None,
) -> Call[Heartbeat]:
    """Renews the lease of a live attempt, and says how far it is; refused once it is over."""
    progress = given({"message": message, "percent": percent, "details": details})
    body = given({"progress": progress or None, "extend_s": extend_s})
    return Call("POST", f"/v1/attempts/{part(attempt)}/heartbeat", Heartbeat.read, body)


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
) -> Call[Decision]:
    """Ends an attempt with what came of it; the same report again gets the same decision."""
    options = {
        "status": status,
        "summary": summary,
        "result": result,
        "verification": verification,
        "failure": failure,
        "files_modified": files_modified,
        "learnings": learnings,
    }
    return Call("POST", f"/v1/attempts/{part(attempt)}/result", Decision.read, given(options))


def exit(attempt: str, code: int, output: str = "") -> Call[Decision]:
    """Ends an attempt with a command's exit code and output; 0 is success."""
    path = f"/v1/attempts/{part(attempt)}/exit/{int(code)}"
    return Call("POST", path, Decision.read, output)


def release(attempt: str, *, reason: Reason = "shutdown", note: str | None = None) -> Call[Task]:
    """Gives a task back unfinished; the attempt does not count."""
    body = given({"reason": reason, "note": note})
    return Call("POST", f"/v1/attempts/{part(attempt)}/release", Task.read, body)


def _tasks(answer: Any) -> tuple[Task, ...]:
    return Task.read_all(answer["data"])
