"""The five verbs by a task's id, for callers in the same process: its live attempt is meant."""

from datetime import datetime
from typing import Any
from uuid import UUID

from ledger.journal import SYSTEM, Actor
from ledger.models import Attempt
from ledger.states import TaskState, Who
from ledger.tasks import fetch_task
from ledger.tasks.lineage import invalid_transition
from ledger.tokens import TrustedCaller
from retries import claims
from retries.attempts import finishing
from retries.attempts.finishing import Report, Told


def mark_running(task_id: UUID, *, actor: Actor = SYSTEM, now: datetime | None = None) -> UUID:
    """Start the task and return its attempt; raises InvalidTransition and CircuitBreakerOpen."""
    return claims.start(task_id, actor=actor, now=now)


def mark_done(
    task_id: UUID, result: Any = None, *, actor: Actor = SYSTEM, now: datetime | None = None
) -> Told:
    """Store the result of a running task: it is done."""
    return told(task_id, TaskState.DONE, Report(result=result), actor=actor, now=now)


def mark_retry(
    task_id: UUID, error: str, *, actor: Actor = SYSTEM, now: datetime | None = None
) -> Told:
    """Note a failure of a running task: it is tried again, or `on_exhausted` comes."""
    said = Report(status="failure", message=error)
    return told(task_id, TaskState.RETRY, said, actor=actor, now=now)


def mark_failed(
    task_id: UUID, error: str, *, actor: Actor = SYSTEM, now: datetime | None = None
) -> Told:
    """Note a failure that no further attempt can cure: `on_exhausted` comes at once."""
    said = Report(status="failure", message=error, non_retryable=True)
    return told(task_id, TaskState.FAILED, said, actor=actor, now=now)


def mark_blocked(
    task_id: UUID, reason: str, *, actor: Actor = SYSTEM, now: datetime | None = None
) -> Told:
    """Note that a running task can't go on: it is blocked, and a person is asked."""
    said = Report(status="blocked", message=reason)
    return told(task_id, TaskState.BLOCKED, said, actor=actor, now=now)


def told(task_id: UUID, to: TaskState, said: Report, *, actor: Actor, now: datetime | None) -> Told:
    live = Attempt.objects.filter(task_id=task_id, outcome=None).values_list("pk", flat=True)
    attempt_id = live.first()
    if attempt_id is None:
        raise invalid_transition(fetch_task(task_id), to, Who.AGENT)
    return finishing.report(attempt_id, said, caller=TrustedCaller(actor), now=now)
