"""Agents over HTTP."""

from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpResponse
from ninja import Body, Query, Router

from ledger import accounts, agents
from ledger.access.reasons import require_reason
from ledger.api.auth import PrincipalAuth, PrincipalRequest, not_visible, stamp_of
from ledger.api.cursors import fetch_page
from ledger.api.parameters import find_by_id
from ledger.api.reading import list_response
from ledger.api.responses import json_response, page_body
from ledger.authorization.principal import Principal
from ledger.database import server_time
from ledger.models import AccountWindow, Agent, Attempt, Instruction, Project, Task
from ledger.models.agent import AgentQuerySet
from ledger.pools import membership
from ledger.schemas.agents import (
    AccountOut,
    AccountWindowOut,
    AgentIn,
    AgentList,
    AgentOut,
    AgentPatch,
    ResetOut,
)
from ledger.schemas.shared import ListQuery, PageQuery, ReasonIn, page_of
from ledger.states import BlockedReason, InstructionState, TaskState
from ledger.values.account_windows import forecast

router = Router(tags=["agents"])


@router.get("/agents", auth=PrincipalAuth("agents:read"), response=AgentList)
def agents_list(request: PrincipalRequest, query: Query[ListQuery]) -> HttpResponse:
    """List the project's agents, newest first."""
    return list_response(with_counts(request.auth).workers(), query, write_agents)


@router.post("/agents", auth=PrincipalAuth("agents:write"), response={200: AgentOut, 201: AgentOut})
def agents_create(request: PrincipalRequest, body: AgentIn) -> HttpResponse:
    """Create an agent; the answer is 200 if the project already has one with this name."""
    project = Project.objects.get(pk=request.auth.project_id)
    agent, is_new = agents.find_or_create(
        body.name, project=project, stamp=stamp_of(request), pointer="/name"
    )
    row = find_agent(request, str(agent.pk))
    return json_response(write_agents([row])[0], 201 if is_new else 200)


@router.get("/agents/{id}", auth=PrincipalAuth("agents:read"), response=AgentOut)
def agents_get(request: PrincipalRequest, id: str) -> HttpResponse:
    """Get an agent."""
    return agent_response(request, id)


@router.patch("/agents/{id}", auth=PrincipalAuth("agents:write"), response=AgentOut)
def agents_update(request: PrincipalRequest, id: str, body: AgentPatch) -> HttpResponse:
    """Update an agent: pause or resume it, set its limit, its account or its system text.

    A paused agent gets no new tasks. Its running attempts continue, and it can still pull
    instructions. Of a pool, all but the pause applies to each member.
    """
    agent, stamp = find_agent(request, id), stamp_of(request)
    workers = membership.expand([agent])
    if body.paused is not None:
        agents.pause([agent], paused=body.paused, stamp=stamp)
    if "concurrency" in body.model_fields_set:
        agents.limit(workers, concurrency=body.concurrency, stamp=stamp)
    if "account" in body.model_fields_set:
        accounts.set_account(workers, account=body.account or "", stamp=stamp)
    if "system_text" in body.model_fields_set:
        text = body.system_text or ""
        agents.brief(workers, system_text=text, stamp=stamp)
    return agent_response(request, id)


@router.post("/agents/{id}/reset", auth=PrincipalAuth("agents:write"), response=ResetOut)
def agents_reset(
    request: PrincipalRequest, id: str, body: Body[ReasonIn | None] = None
) -> HttpResponse:
    """Cancel the agent's unsettled instructions.

    Its tasks are not affected.
    """
    found, reason = find_agent(request, id), body.reason if body else ""
    require_reason("agent.reset", [request.auth.project_id], reason)
    chosen, stamp = membership.expand([found]), stamp_of(request)
    count = sum(agents.reset(each, note=reason, stamp=stamp) for each in chosen)
    return json_response({"cancelled": count})


def agent_response(request: PrincipalRequest, id: str) -> HttpResponse:
    return json_response(write_agents([find_agent(request, id)])[0])


@router.get("/accounts", auth=PrincipalAuth("agents:read"), response=page_of(AccountOut))
def accounts_list(request: PrincipalRequest, query: Query[PageQuery]) -> HttpResponse:
    """List the accounts that agents' calls are billed to, with their limits, newest first."""
    now, project_id = server_time.now(), request.auth.project_id
    page = fetch_page(
        lambda before, most: accounts.list_newest(project_id, now=now, before=before, most=most),
        list="accounts",
        limit=query.limit,
        cursor=query.cursor,
    )
    data = [
        AccountOut.write(
            row, waits_until=row.waits_until(now), limits=write_windows(row.windows, now)
        )
        for row in page.rows
    ]
    return json_response(page_body(page, data))


def write_windows(rows: list[AccountWindow], now: datetime) -> list[dict[str, Any]]:
    def full_at(row: AccountWindow) -> datetime | None:
        found = forecast(row.fact, facts=row.facts, now=now)
        return found.full_at if found else None

    return [AccountWindowOut.write(row, full_at=full_at(row)) for row in rows]


def write_agents(rows: list[Any]) -> list[dict[str, Any]]:
    now = server_time.now()
    silent = silent_ids(rows, now)
    pools = membership.name_pools_of([row.id for row in rows if row.in_pools])
    limits = accounts.list_windows({(row.project_id, row.account_name) for row in rows})
    return [
        AgentOut.write(
            row,
            silent=row.id in silent,
            pools=pools.get(row.id, []),
            limits=write_windows(limits[row.project_id, row.account_name], now),
        )
        for row in rows
    ]


def find_agent(request: PrincipalRequest, id: str) -> Any:
    """Return the agent with this id or name, with its counts; raise NotFound if not visible."""
    agent = find_by_id(with_counts(request.auth), id, name=id)
    if agent is None:
        raise not_visible("agent", id)
    return agent


# each with the condition of a partial index, so that no settled row is read
WAITING = Instruction.objects.filter(agent=OuterRef("pk"), state=InstructionState.QUEUED)
AWAITING_ACK = Instruction.objects.filter(
    agent=OuterRef("pk"), state=InstructionState.DELIVERED, tracked=True
)
RUNNING = Attempt.objects.filter(agent=OuterRef("pk"), outcome=None)
HELD = Task.objects.filter(
    agent=OuterRef("pk"), state=TaskState.BLOCKED, blocked_reason=BlockedReason.BREAKER_OPEN
)


def with_counts(principal: Principal) -> AgentQuerySet:
    agents = Agent.objects.visible_to(principal).select_related("breaker")
    return agents.annotate(
        waiting=count_per_agent(WAITING),
        awaiting_ack=count_per_agent(AWAITING_ACK),
        running=count_per_agent(RUNNING),
        held=count_per_agent(HELD),
    )


def count_per_agent(rows: QuerySet[Any]) -> Coalesce:
    # A join would read all rows of the agents, and multiply the other counts.
    counts = rows.order_by().values("agent").annotate(number=Count("pk")).values("number")
    return Coalesce(Subquery(counts), 0)


def silent_ids(rows: list[Any], now: datetime) -> set[UUID]:
    ids = [agent.id for agent in rows]
    return set(agents.find_silent(now).filter(pk__in=ids).values_list("id", flat=True))
