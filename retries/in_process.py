"""Verbs for callers in the same process: the five `mark_*` functions, and one call that does all.

The `mark_*` functions take a task's id and report on its live attempt.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from django.utils import timezone

from ledger import tasks
from ledger.agents import register
from ledger.journal import SYSTEM, Actor, Stamp
from ledger.models import Attempt, Project
from ledger.models.project import DEFAULT
from ledger.states import TaskState, Who
from ledger.tasks import fetch_task
from ledger.tasks.lineage import invalid_transition
from ledger.tokens import TrustedCaller
from retries import claims
from retries.attempts.finishing import Reply, finish_attempt
from retries.attempts.report_fields import Report
from retries.breaker import CircuitBreakerOpen
from retries.strategy import RetryStrategy

T = TypeVar("T")


def mark_running(task_id: UUID, *, actor: Actor = SYSTEM, now: datetime | None = None) -> UUID:
    """Start the task and return its attempt; raises InvalidTransition and CircuitBreakerOpen."""
    return claims.start(task_id, stamp=Stamp(actor, now or timezone.now()))


def mark_done(
    task_id: UUID, result: Any = None, *, actor: Actor = SYSTEM, now: datetime | None = None
) -> Reply:
    """Store the result of a running task: it is done."""
    report = Report(result=result)
    return report_on_task(
        task_id, TaskState.DONE, report, stamp=Stamp(actor, now or timezone.now())
    )


def mark_retry(
    task_id: UUID, error: str, *, actor: Actor = SYSTEM, now: datetime | None = None
) -> Reply:
    """Record a failure of a running task: it is retried, or `on_exhausted` applies."""
    report = Report(status="failure", message=error)
    return report_on_task(
        task_id, TaskState.RETRY, report, stamp=Stamp(actor, now or timezone.now())
    )


def mark_failed(
    task_id: UUID, error: str, *, actor: Actor = SYSTEM, now: datetime | None = None
) -> Reply:
    """Record a failure that no further attempt can fix: `on_exhausted` applies at once."""
    report = Report(status="failure", message=error, non_retryable=True)
    return report_on_task(
        task_id, TaskState.FAILED, report, stamp=Stamp(actor, now or timezone.now())
    )


def mark_blocked(
    task_id: UUID, reason: str, *, actor: Actor = SYSTEM, now: datetime | None = None
) -> Reply:
    """Record that a running task can't go on: it is blocked, and a person is asked."""
    report = Report(status="blocked", message=reason)
    return report_on_task(
        task_id, TaskState.BLOCKED, report, stamp=Stamp(actor, now or timezone.now())
    )


def report_on_task(task_id: UUID, to: TaskState, report: Report, *, stamp: Stamp) -> Reply:
    """Report on the task's live attempt; raises InvalidTransition where it has none."""
    live = Attempt.objects.filter(task_id=task_id, outcome=None).values_list("pk", flat=True)
    attempt_id = live.first()
    if attempt_id is None:
        raise invalid_transition(fetch_task(task_id), to, Who.AGENT)
    return finish_attempt(attempt_id, report, caller=TrustedCaller(stamp.actor), now=stamp.at)


# ---- by an attempt's id


def report_success(attempt_id: UUID, result: Any = None, *, stamp: Stamp) -> Reply:
    """Report the success of an attempt."""
    return finish_attempt(
        attempt_id, Report(result=result), caller=TrustedCaller(stamp.actor), now=stamp.at
    )


def report_failure(attempt_id: UUID, error: str, *, final: bool = False, stamp: Stamp) -> Reply:
    """Report the failure of an attempt; `final` where no further attempt can fix it."""
    report = Report(status="failure", message=error, non_retryable=final)
    return finish_attempt(attempt_id, report, caller=TrustedCaller(stamp.actor), now=stamp.at)


# ---- everything in one call


def execute_agent_task_with_resilience(
    agent_name: str,
    task_type: str,
    payload: Any,
    fn: Callable[[str, str, Any], T],
    *,
    strategy: RetryStrategy | None = None,
    actor: Actor = SYSTEM,
) -> T:
    """Enqueue a task, run it with `fn(agent_name, task_type, payload)`, and return its result.

    The agent belongs to the default project. An error that outlasts the retries is reported once,
    so that the task ends as a dead letter, and raised. An open circuit blocks the task and raises
    CircuitBreakerOpen without a call. All calls together must end within the task's lease.
    """
    project = Project.objects.get(name=DEFAULT)
    agent = register(agent_name, project=project, stamp=Stamp(actor))
    task_id = tasks.enqueue(agent, task_type, payload, actor=actor)
    attempt_id = claims.start(task_id, stamp=Stamp(actor))
    try:
        result = (strategy or RetryStrategy()).execute_with_retry(
            fn, agent_name, task_type, payload
        )
    except Exception as error:
        # An open circuit inside the function does not mean that the task itself can't succeed.
        final = not isinstance(error, CircuitBreakerOpen)
        report_failure(
            attempt_id, f"{type(error).__name__}: {error}", final=final, stamp=Stamp(actor)
        )
        raise
    report_success(attempt_id, result, stamp=Stamp(actor))
    return result
