"""The attempt that a tool is about where the agent names none."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from config.mcp.tools import identify
from ledger.database import server_time
from ledger.errors import Invalid, NotFound
from ledger.models import Attempt
from ledger.values.ids import first_id
from retries.agent_hooks.reaching import say_loss
from retries.claiming.session_names import SESSION

CLAIM = "Call claim_task."
RECENT = timedelta(days=1)


def hooked_worker(request: Any) -> str:
    """Return the worker of the agent's only live attempt that a hook has claimed; else empty."""
    rows = live_attempts(request)
    found = rows.filter(worker_id__startswith=SESSION).values_list("worker_id", flat=True)[:2]
    return str(found[0]) if len(found) == 1 else ""


def live_attempts(request: Any) -> QuerySet[Attempt]:
    return Attempt.objects.filter(agent_id=identify(request).agent_id, ended_at=None)


def find_attempt(request: Any, given: UUID | None) -> UUID:
    """Return the attempt that a tool is about; without an id, the agent's only live one."""
    if given is not None:
        return given
    found = [*live_attempts(request).values_list("id", flat=True)[:2]]
    if not found:
        raise NotFound(f"You have no open attempt. {say_newest_loss(request)}".rstrip(), hint=CLAIM)
    if len(found) > 1:
        raise Invalid("/attempt", "You have several open attempts: name the one that you mean.")
    id: UUID = found[0]
    return id


def say_newest_loss(request: Any) -> str:
    own = Attempt.objects.filter(agent_id=identify(request).agent_id).select_related("task")
    # The bound keeps an idle agent's search short.
    since = first_id(server_time.now() - RECENT)
    newest = own.filter(id__gte=since).order_by("-id").first()
    return say_loss(newest) if newest else ""
