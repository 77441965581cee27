"""Agents over HTTP."""

from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpResponse
from django.utils import timezone
from ninja import Query, Router

from ledger import agents
from ledger.agents import find_silent
from ledger.api import cursors
from ledger.api.auth import PrincipalAuth, PrincipalRequest, actor
from ledger.api.responses import answer, listed
from ledger.errors import NotFound
from ledger.models import Agent, Attempt, Breaker, Task
from ledger.models.agent import AgentQuerySet
from ledger.principal import Principal
from ledger.schemas import agents as schemas
from ledger.schemas.shared import PageQuery
from ledger.states import BlockedReason, BreakerState, InstructionState, TaskState

router = Router(tags=["agents"])


RUNNING = Attempt.objects.filter(agent=OuterRef("pk"), outcome=None)
HELD = Task.objects.filter(
    agent=OuterRef("pk"), state=TaskState.BLOCKED, blocked_reason=BlockedReason.BREAKER_OPEN
)


def number_of(rows: QuerySet[Any]) -> Coalesce:
    """How many of `rows` there are for each agent; a join would multiply the other counts."""
    each = rows.order_by().values("agent").annotate(number=Count("pk")).values("number")
    return Coalesce(Subquery(each), 0)


def counted(principal: Principal) -> AgentQuerySet:
    state = "instruction__state"
    agents = Agent.objects.visible_to(principal).select_related("breaker")
    return agents.annotate(
        waiting=Count("instruction", filter=Q(**{state: InstructionState.QUEUED})),
        awaiting_ack=Count(
            "instruction",
            filter=Q(**{state: InstructionState.DELIVERED}, instruction__tracked=True),
        ),
        running=number_of(RUNNING),
        held=number_of(HELD),
    )


NEVER_FAILED = Breaker(state=BreakerState.CLOSED, failures=0, reason="")


def breaker_out(agent: Any) -> dict[str, Any]:
    """The breaker; an agent that never failed has none: it is closed."""
    breaker = getattr(agent, "breaker", None) or NEVER_FAILED
    return {
        "state": breaker.state,
        "failures": breaker.failures,
        "reason": breaker.reason,
        "opened_at": breaker.opened_at,
        "retry_at": breaker.retry_at,
        "held_tasks": agent.held,
    }


def agent_out(agent: Any, silent: set[UUID]) -> dict[str, Any]:
    return {
        "id": agent.id,
        "name": agent.name,
        "paused": agent.paused,
        "concurrency": agent.concurrency,
        "system_text": agent.system_text,
        "running": agent.running,
        "breaker": breaker_out(agent),
        "last_seen_at": agent.last_seen_at,
        "silent": agent.id in silent,
        "waiting": agent.waiting,
        "awaiting_ack": agent.awaiting_ack,
        "created_at": agent.created_at,
    }


def silent_among(agents: list[Any], now: datetime) -> set[UUID]:
    ids = [agent.id for agent in agents]
    return set(find_silent(now).filter(pk__in=ids).values_list("id", flat=True))


@router.get("/agents", auth=PrincipalAuth("agents:read"), response=schemas.AgentList)
def agents_list(request: PrincipalRequest, asked: Query[PageQuery]) -> HttpResponse:
    """List the project's agents, newest first."""
    query = counted(request.auth)
    page = cursors.cut(query, limit=asked.limit, cursor=asked.cursor, filters={})
    silent = silent_among(page.rows, timezone.now())
    return answer(listed(page, [agent_out(agent, silent) for agent in page.rows]))


@router.get("/agents/{id}", auth=PrincipalAuth("agents:read"), response=schemas.AgentOut)
def agents_get(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Read one agent."""
    return answer(shown(request, id))


@router.patch("/agents/{id}", auth=PrincipalAuth("agents:write"), response=schemas.AgentOut)
def agents_update(request: PrincipalRequest, id: UUID, body: schemas.AgentPatch) -> HttpResponse:
    """Pause an agent, or let it go on; limit its attempts at once; set what its prompts begin with.

    A paused one is handed no tasks. Pulls go on either way, and so does what runs already.
    """
    agent, who = found(request, id), actor(request.auth)
    if body.paused is not None:
        agents.pause([agent], paused=body.paused, actor=who, request_id=request.id)
    if "concurrency" in body.model_fields_set:
        agents.limit([agent], concurrency=body.concurrency, actor=who, request_id=request.id)
    if "system_text" in body.model_fields_set:
        agents.brief([agent], system_text=body.system_text or "", actor=who, request_id=request.id)
    return answer(shown(request, id))


@router.post("/agents/{id}/reset", auth=PrincipalAuth("agents:write"), response=schemas.ResetOut)
def agents_reset(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Cancel the agent's unsettled instructions, and nothing else."""
    count = agents.reset(found(request, id), actor=actor(request.auth))
    return answer({"cancelled": count})


def found(request: PrincipalRequest, id: UUID) -> Any:
    agent = counted(request.auth).filter(pk=id).first()
    if agent is None:
        raise NotFound(f"There is no agent {id} that this token may see.")
    return agent


def shown(request: PrincipalRequest, id: UUID) -> dict[str, Any]:
    agent = found(request, id)
    return agent_out(agent, silent_among([agent], timezone.now()))
