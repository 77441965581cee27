"""Pools over HTTP: names that tasks can be sent to, and the agents that claim them."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.http import HttpResponse
from ninja import Query, Router

from ledger import agents
from ledger.api.auth import PrincipalAuth, PrincipalRequest, not_visible, stamp_of
from ledger.api.parameters import find_by_id
from ledger.api.reading import list_response
from ledger.api.responses import json_response
from ledger.authorization.principal import Principal
from ledger.database import server_time, sql
from ledger.errors import Invalid
from ledger.models import Agent, Project
from ledger.models.agent import AgentQuerySet
from ledger.pools import membership
from ledger.pools.figures import read_figures
from ledger.schemas.pools import (
    PoolDeleteQuery,
    PoolIn,
    PoolMemberOut,
    PoolOut,
    PoolPatch,
    PoolRemovedOut,
)
from ledger.schemas.shared import ListQuery, page_of

router = Router(tags=["pools"])


@router.get("/pools", auth=PrincipalAuth("agents:read"), response=page_of(PoolOut))
def pools_list(request: PrincipalRequest, query: Query[ListQuery]) -> HttpResponse:
    """List the project's pools, newest first; an agent sees those that it is a member of."""
    return list_response(visible_pools(request.auth), query, write_pools)


@router.post("/pools", auth=PrincipalAuth("agents:write"), response={201: PoolOut})
def pools_create(request: PrincipalRequest, body: PoolIn) -> HttpResponse:
    """Create a pool.

    Tasks are sent to its name as to an agent's, and its members claim them.
    """
    project = Project.objects.get(pk=request.auth.project_id)
    pool = membership.create(
        body.name,
        members=find_members(body.members, project=project, pointer="/members"),
        retry_on=body.retry_on,
        project=project,
        stamp=stamp_of(request),
    )
    return pool_response(request, str(pool.pk), status=201)


@router.get("/pools/{id}", auth=PrincipalAuth("agents:read"), response=PoolOut)
def pools_get(request: PrincipalRequest, id: str) -> HttpResponse:
    """Get a pool with its members and what waits for them."""
    return pool_response(request, id)


@router.patch("/pools/{id}", auth=PrincipalAuth("agents:write"), response=PoolOut)
def pools_update(request: PrincipalRequest, id: str, body: PoolPatch) -> HttpResponse:
    """Update a pool: pause or resume it, add or remove members, or set who retries its tasks.

    A member that leaves finishes what it runs.
    """
    pool, stamp = find_pool(request, id), stamp_of(request)

    def update() -> None:
        if body.paused is not None:
            agents.pause([pool], paused=body.paused, stamp=stamp)
        if body.retry_on is not None:
            membership.set_retry_on(pool, body.retry_on, stamp=stamp)
        project = Project.objects.get(pk=request.auth.project_id)
        if body.add:
            added = find_members(body.add, project=project, pointer="/add")
            membership.add_members(pool, added, stamp=stamp)
        if body.remove:
            removed = find_members(body.remove, project=project, pointer="/remove")
            membership.remove_members(pool, removed, stamp=stamp)

    sql.atomic(update)()
    return pool_response(request, id)


@router.delete("/pools/{id}", auth=PrincipalAuth("agents:write"), response=PoolRemovedOut)
def pools_delete(request: PrincipalRequest, id: str, query: Query[PoolDeleteQuery]) -> HttpResponse:
    """Remove a pool; its open tasks go to the agent or pool `move_to`.

    Tasks that a member runs stay there until the attempt ends.
    """
    pool = find_pool(request, id)
    to = None
    if query.move_to:
        project = Project.objects.get(pk=request.auth.project_id)
        to = agents.get_by_name(query.move_to, project=project)
    moved = membership.remove(pool, move_to=to, stamp=stamp_of(request))
    return json_response({"moved": moved})


def visible_pools(principal: Principal) -> AgentQuerySet:
    pools = Agent.objects.pools().filter(project=principal.project_id)
    return pools.filter(member_seats__agent=principal.agent_id) if principal.is_agent else pools


def find_pool(request: PrincipalRequest, id: str) -> Agent:
    pool = find_by_id(visible_pools(request.auth), id, name=id)
    if pool is None:
        raise not_visible("pool", id)
    return pool


def find_members(names: Sequence[str], *, project: Project, pointer: str) -> list[Agent]:
    """Return the agents with these names; raises Invalid with the place of an unknown one."""
    rows = Agent.objects.filter(project=project, name__in=[n for n in names if "\0" not in n])
    known = {agent.name: agent for agent in rows}
    for place, name in enumerate(names):
        if name not in known:
            agents.check_name(name, pointer=f"{pointer}/{place}")
            raise Invalid(f"{pointer}/{place}", f"No agent is called '{name}' in this project.")
    return list(known.values())


def pool_response(request: PrincipalRequest, id: str, *, status: int = 200) -> HttpResponse:
    return json_response(write_pools([find_pool(request, id)])[0], status)


def write_pools(pools: Sequence[Agent]) -> list[dict[str, Any]]:
    now = server_time.now()
    found = read_figures([pool.pk for pool in pools], now=now)
    return [write_pool(pool, found[pool.pk], now=now) for pool in pools]


def write_pool(pool: Agent, figures: Any, *, now: datetime) -> dict[str, Any]:
    silent = timedelta(seconds=settings.TENFOUR["SILENT_AFTER_SECONDS"])
    return PoolOut.write(
        pool,
        **{name: getattr(figures, name) for name in ("queued", "retries", "running", "done")},
        oldest_at=figures.oldest_at,
        members=[
            PoolMemberOut.write(member, hold=member.find_hold(now, silent=silent))
            for member in figures.members
        ],
    )
