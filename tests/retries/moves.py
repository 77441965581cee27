"""The moves of a task as tests make them: enqueue, claim, fail."""

from datetime import datetime
from typing import Any
from uuid import UUID

from ledger import tasks
from ledger.journal import SYSTEM
from ledger.models import Agent, Event
from ledger.tokens import TrustedCaller
from retries import claims
from retries.attempts import finishing
from retries.attempts.report_fields import Report
from retries.claims import ClaimResult
from tests.factories import NOW


def make_task(agent: Agent, *, now: datetime = NOW, **more: Any) -> UUID:
    return tasks.enqueue(agent, more.pop("type", "code"), more.pop("payload", {}), now=now, **more)


def claim(agent: Agent, *, now: datetime = NOW, **more: Any) -> ClaimResult:
    return claims.claim(TrustedCaller(SYSTEM, agent=agent), now=now, **more)


def attempt_of(found: ClaimResult) -> UUID:
    id: UUID = found.rows[0]["attempt_id"]
    return id


def fail(agent: Agent, id: UUID, *, now: datetime, **more: Any) -> dict[str, Any]:
    said = Report(status="failure", message=more.pop("message", "it broke"), **more)
    return finishing.finish_attempt(
        id, said, caller=TrustedCaller(SYSTEM, agent=agent), now=now
    ).decision


def kinds(task_id: UUID) -> list[str]:
    return list(
        Event.objects.filter(subject_id=task_id).order_by("id").values_list("kind", flat=True)
    )
