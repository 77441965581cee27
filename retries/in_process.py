"""Verbs for callers in the same process: the five `mark_*` functions, and one call that does all.

The `mark_*` functions take a task's id and report on its live attempt.
"""

import asyncio
import inspect
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from pydantic_core import from_json, to_json

from ledger import tasks
from ledger.agents import register
from ledger.database import server_time
from ledger.database.sql import drop_interrupted_connection
from ledger.errors import NotFound
from ledger.journal import SYSTEM, Actor, Stamp
from ledger.models import Attempt, Project
from ledger.models.project import DEFAULT
from ledger.states import TaskState, Who
from ledger.tasks import fetch_task
from ledger.tasks.lineage import invalid_transition
from ledger.tokens import TrustedCaller
from retries import claims
from retries.attempts import releases
from retries.attempts.finishing import Reply, finish_attempt
from retries.attempts.report_fields import Report
from retries.breaker import CircuitBreakerOpen
from retries.calls import is_in_coroutine, resolve, run_in_thread
from retries.strategy import RetryStrategy


def mark_running(
    task_id: UUID | str, *, actor: Actor = SYSTEM, now: datetime | None = None
) -> UUID:
    """Start the task and return its attempt; raises InvalidTransition and CircuitBreakerOpen."""
    return claims.start(parse_id(task_id), stamp=Stamp(actor, now or server_time.now()))


def mark_done(
    task_id: UUID | str, result: Any = None, *, actor: Actor = SYSTEM, now: datetime | None = None
) -> Reply:
    """Store the result of a running task: it is done."""
    report = Report(result=to_plain_json(result))
    return report_on_task(
        task_id, TaskState.DONE, report, stamp=Stamp(actor, now or server_time.now())
    )


def mark_retry(
    task_id: UUID | str,
    error: str | BaseException,
    *,
    actor: Actor = SYSTEM,
    now: datetime | None = None,
) -> Reply:
    """Record a failure of a running task: it is retried, or `on_exhausted` applies."""
    report = Report(status="failure", message=describe_error(error))
    return report_on_task(
        task_id, TaskState.RETRY, report, stamp=Stamp(actor, now or server_time.now())
    )


def mark_failed(
    task_id: UUID | str,
    error: str | BaseException,
    *,
    actor: Actor = SYSTEM,
    now: datetime | None = None,
) -> Reply:
    """Record a failure that no further attempt can fix: `on_exhausted` applies at once."""
    report = Report(status="failure", message=describe_error(error), non_retryable=True)
    return report_on_task(
        task_id, TaskState.FAILED, report, stamp=Stamp(actor, now or server_time.now())
    )


def mark_blocked(
    task_id: UUID | str,
    reason: str | BaseException,
    *,
    actor: Actor = SYSTEM,
    now: datetime | None = None,
) -> Reply:
    """Record that a running task can't continue: it is blocked, and a person is asked."""
    report = Report(status="blocked", message=describe_error(reason))
    return report_on_task(
        task_id, TaskState.BLOCKED, report, stamp=Stamp(actor, now or server_time.now())
    )


def report_on_task(task_id: UUID | str, to: TaskState, report: Report, *, stamp: Stamp) -> Reply:
    """Report on the task's live attempt; raises InvalidTransition where it has none."""
    id = parse_id(task_id)
    live = Attempt.objects.filter(task_id=id, outcome=None).values_list("pk", flat=True)
    attempt_id = live.first()
    if attempt_id is None:
        raise invalid_transition(fetch_task(id), to, Who.AGENT)
    return finish_attempt(attempt_id, report, caller=TrustedCaller(stamp.actor), now=stamp.at)


def parse_id(task_id: UUID | str) -> UUID:
    try:
        return UUID(str(task_id))
    except ValueError:
        raise NotFound(f"There is no task {task_id}.") from None


def describe_error(error: str | BaseException) -> str:
    if isinstance(error, str):
        return error
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # the exception's own __str__ can fail
        return type(error).__name__


def to_plain_json(value: Any) -> Any:
    """Return a function's result as JSON can store it; never fails.

    Dates become text, sets become lists, NaN becomes null, and other objects their `repr`.

    >>> from datetime import date
    >>> to_plain_json({"at": date(2026, 11, 21), "odd": {1}, "rate": float("nan")})
    {'at': '2026-11-21', 'odd': [1], 'rate': None}
    """
    try:
        return from_json(to_json(value, fallback=repr, inf_nan_mode="null", bytes_mode="base64"))
    except Exception:  # it contains itself, or its own methods fail
        try:
            return repr(value)
        except Exception:
            return f"<{type(value).__name__}>"


# ---- by an attempt's id


def report_success(attempt_id: UUID, result: Any = None, *, stamp: Stamp) -> Reply:
    report = Report(result=to_plain_json(result))
    return finish_attempt(attempt_id, report, caller=TrustedCaller(stamp.actor), now=stamp.at)


def report_failure(
    attempt_id: UUID, error: str | BaseException, *, final: bool = False, stamp: Stamp
) -> Reply:
    report = Report(status="failure", message=describe_error(error), non_retryable=final)
    return finish_attempt(attempt_id, report, caller=TrustedCaller(stamp.actor), now=stamp.at)


# ---- everything in one call


def execute_agent_task_with_resilience(
    agent_name: str,
    task_type: str,
    payload: Any,
    fn: Callable[[str, str, Any], Any],
    *,
    strategy: RetryStrategy | None = None,
    actor: Actor = SYSTEM,
) -> Any:
    """Enqueue a task, run it with `fn(agent_name, task_type, payload)`, and return its result.

    The agent belongs to the default project. An async function is run to its end; an async caller
    awaits this function, which then returns a coroutine. An error that outlasts the retries is
    reported once, so that the task ends as a dead letter, and raised. An open circuit blocks the
    task and raises CircuitBreakerOpen without a call. An interrupt releases the task. All calls
    together must end within the task's lease.
    """
    retries = strategy or RetryStrategy()
    call = partial(retries.execute_with_retry, partial(fn, agent_name, task_type, payload))
    begin = partial(begin_attempt, agent_name, task_type, payload, actor=actor)
    if is_in_coroutine():
        return execute_async(begin, call, actor=actor)
    attempt_id = begin()
    try:
        result = call()
        if inspect.isawaitable(result):
            result = asyncio.run(resolve(result))
    except BaseException as error:
        report_error(attempt_id, error, actor=actor)
        raise
    report_success(attempt_id, result, stamp=Stamp(actor))
    return result


async def execute_async(begin: Callable[[], UUID], call: Callable[[], Any], *, actor: Actor) -> Any:
    begun: list[UUID] = []  # also where the caller is cancelled while it begins
    try:
        await run_in_thread(lambda: begun.append(begin()))
        result = await resolve(call())
    except BaseException as error:
        for attempt_id in begun:
            await run_in_thread(report_error, attempt_id, error, actor=actor)
        raise
    await run_in_thread(report_success, begun[0], result, stamp=Stamp(actor))
    return result


def begin_attempt(agent_name: str, task_type: str, payload: Any, *, actor: Actor) -> UUID:
    project = Project.objects.get(name=DEFAULT)
    agent = register(agent_name, project=project, stamp=Stamp(actor))
    return claims.start(tasks.enqueue(agent, task_type, payload, actor=actor), stamp=Stamp(actor))


def report_error(attempt_id: UUID, error: BaseException, *, actor: Actor) -> None:
    # An interrupt releases the attempt, which then does not count.
    if isinstance(error, Exception):
        # An open circuit inside the function does not mean that the task itself can't succeed.
        final = not isinstance(error, CircuitBreakerOpen)
        report_failure(attempt_id, error, final=final, stamp=Stamp(actor))
    else:
        drop_interrupted_connection()
        reason = "user_interrupt" if isinstance(error, KeyboardInterrupt) else "shutdown"
        releases.release(attempt_id, caller=TrustedCaller(actor), reason=reason)
