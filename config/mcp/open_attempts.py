"""The attempt that a tool is about where the agent names none."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from config.mcp.tools import identify
from ledger.errors import Invalid, NotFound
from ledger.models import Attempt
from retries.attempts.live_attempt import SESSION


def hooked_worker(request: Any) -> str:
    """Return the worker of the agent's only live attempt that a hook has claimed; else empty."""
    rows = live_attempts(request)
    found = rows.filter(worker_id__startswith=SESSION).values_list("worker_id", flat=True)[:2]
    return str(found[0]) if len(found) == 1 else ""


def live_attempts(request: Any) -> QuerySet[Attempt]:
    """Return the live attempts of the token's agent."""
    return Attempt.objects.filter(agent_id=identify(request).agent_id, ended_at=None)


def find_attempt(request: Any, given: UUID | None) -> UUID:
    """Return the attempt that a tool is about; without an id, the agent's only live one."""
    if given is not None:
        return given
    found = [*live_attempts(request).values_list("id", flat=True)[:2]]
    if not found:
        raise NotFound("You have no open attempt. Call claim_task first.")
    if len(found) > 1:
        raise Invalid("/attempt", "You have several open attempts: name the one that you mean.")
    id: UUID = found[0]
    return id
