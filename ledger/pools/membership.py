"""Pools: names that tasks can be sent to instead of one agent, and the agents that claim them.

A pool is a row of the agents' table, so pools and agents share their names, and everything that
takes an agent's name takes a pool's. What a claim does with a pool is in retries/claiming/pools.py.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef

from ledger import agents, journal, moves
from ledger.database import sql
from ledger.errors import Invalid, Refusal
from ledger.journal import Kind, Stamp
from ledger.models import Agent, PoolMember, Project, Task
from ledger.secrets.redaction import redacted
from ledger.states import FINAL, RetryOn
from ledger.tasks.spec import check_retry_on
from ledger.tokens import TrustedCaller

# A claim looks at each pool of its agent.
MOST_POOLS = 200
MOST_MEMBERS = 1_000
MOST_MOVED = 10_000  # tasks that a removal moves, in one transaction


class NameTaken(Refusal):
    """The name is taken"""

    code = "name_taken"
    hint = "Choose another name: pools and agents share their names."


class NotAPool(Refusal):
    """Not a pool"""

    code = "not_a_pool"
    hint = "Use the name of a pool. 'GET /v1/pools' lists them."


class PoolHasTasks(Refusal):
    """The pool has open tasks"""

    code = "pool_has_tasks"
    hint = "Name the agent or pool that gets them in 'move_to', or reassign them first."


@sql.atomic
def create(
    name: str,
    *,
    members: Collection[Agent] = (),
    retry_on: str = RetryOn.ANY,
    project: Project,
    stamp: Stamp,
) -> Agent:
    """Create a pool, or bring a removed one back; raises NameTaken."""
    agents.check_new_name(name, pointer="/name")
    if redacted(name) != name:
        raise Invalid("/name", "A pool's name must not contain a secret. Choose another.")
    check_retry_on(retry_on, "/retry_on")
    pool, is_new = Agent.objects.select_for_update(no_key=True).get_or_create(
        project=project, name=name, defaults={"is_pool": True, "retry_on": retry_on}
    )
    if not is_new:
        if not pool.is_pool or pool.removed_at is None:
            noun = "pool" if pool.is_pool else "agent"
            raise NameTaken(f"The project has {noun_with_article(noun)} called '{name}' already.")
        pool.removed_at, pool.retry_on, pool.paused = None, retry_on, False
        pool.save(update_fields=["removed_at", "retry_on", "paused"])
    record(pool, Kind.POOL_CREATED, data={"name": name, "retry_on": retry_on}, stamp=stamp)
    if members:
        add_members(pool, members, stamp=stamp)
    return pool


def noun_with_article(noun: str) -> str:
    return f"{'an' if noun == 'agent' else 'a'} {noun}"


@sql.atomic
def add_members(pool: Agent, members: Collection[Agent], *, stamp: Stamp) -> list[Agent]:
    """Let agents claim the pool's tasks; return those that were no members."""
    for agent in members:
        if agent.is_pool:
            raise Invalid("/members", f"'{agent.name}' is a pool. Only agents can be members.")
        if agent.project_id != pool.project_id:
            raise Invalid("/members", f"'{agent.name}' is an agent of another project.")
    found = lock(pool, members)
    seats = count_seats(found)
    number = PoolMember.objects.filter(pool=pool).count()
    known = set(
        PoolMember.objects.filter(pool=pool, agent__in=found).values_list("agent", flat=True)
    )
    added = [agent for agent in found if agent.pk not in known]
    if number + len(added) > MOST_MEMBERS:
        raise Invalid("/members", f"A pool can have at most {MOST_MEMBERS:,} members.")
    for agent in added:
        if seats[agent.pk] >= MOST_POOLS:
            raise Invalid(
                "/members", f"'{agent.name}' is in {MOST_POOLS} pools, and can't be in more."
            )
    PoolMember.objects.bulk_create(
        PoolMember(agent=agent, pool=pool, added_at=stamp.at) for agent in added
    )
    Agent.objects.filter(pk__in=[agent.pk for agent in added]).update(in_pools=True)
    if added:
        record(pool, Kind.POOL_CHANGED, data={"added": names_of(added)}, stamp=stamp)
    return added


@sql.atomic
def remove_members(pool: Agent, members: Iterable[Agent], *, stamp: Stamp) -> list[Agent]:
    """Let agents claim no more of the pool's tasks; return those that were members.

    Tasks that waited for such an agent alone go back to the pool. Running attempts continue.
    """
    found = lock(pool, members)
    seats = PoolMember.objects.filter(pool=pool, agent__in=found)
    ids = set(seats.values_list("agent", flat=True))
    removed = [agent for agent in found if agent.pk in ids]
    seats.delete()
    left = PoolMember.objects.filter(agent=OuterRef("pk"))
    Agent.objects.filter(pk__in=ids).update(in_pools=Exists(left))
    if removed:
        sql.run(GIVE_BACK, pool=pool.pk, agents=sorted(ids), now=stamp.at)
        record(pool, Kind.POOL_CHANGED, data={"removed": names_of(removed)}, stamp=stamp)
    return removed


# The rows are locked in the order of their ids, as by everything else that locks several tasks.
GIVE_BACK = f"""update ledger_task t set agent_id = t.pool_id, version = t.version + 1,
    updated_at = %(now)s
where t.id = any(array(
    select w.id from ledger_task w where w.pool_id = %(pool)s and w.agent_id = any(%(agents)s)
        and w.state in ({sql.quoted(moves.WAITING)}) order by w.id for no key update))"""


@sql.atomic
def set_retry_on(pool: Agent, retry_on: str, *, stamp: Stamp) -> bool:
    """Set which members retry the tasks that are sent to the pool from now on."""
    check_retry_on(retry_on, "/retry_on")
    changed = Agent.objects.filter(pk=pool.pk).exclude(retry_on=retry_on).update(retry_on=retry_on)
    pool.retry_on = retry_on
    if changed:
        record(pool, Kind.POOL_CHANGED, data={"retry_on": retry_on}, stamp=stamp)
    return bool(changed)


@sql.atomic
def remove(pool: Agent, *, move_to: Agent | None = None, stamp: Stamp) -> int:
    """Remove a pool and return how many open tasks went to `move_to`.

    Raises PoolHasTasks if it has open tasks and there is no `move_to`. Running tasks stay with the
    member that runs them; if `move_to` is a pool, its members retry them.
    """
    if move_to and (move_to.pk == pool.pk or move_to.removed_at):
        raise Invalid("/move_to", "Name an agent or pool that tasks can be sent to.")
    if move_to and move_to.project_id != pool.project_id:
        raise Invalid("/move_to", f"'{move_to.name}' is in another project.")
    # No task can be sent to it from here on, because that reads the row first.
    Agent.objects.select_for_update().get(pk=pool.pk)
    number = count_open(pool)
    if number and move_to is None:
        raise PoolHasTasks(f"The pool {pool.name} has {describe_count(number)}.", tasks=number)
    if number > MOST_MOVED:
        raise PoolHasTasks(
            f"The pool {pool.name} has more than {MOST_MOVED:,} open tasks.",
            tasks=number,
            hint="Reassign them on the Tasks page, and then remove the pool.",
        )
    moved = move_tasks(pool, move_to, stamp=stamp) if move_to and number else 0
    remove_members(pool, list_members(pool), stamp=stamp)
    Agent.objects.filter(pk=pool.pk).update(removed_at=stamp.at)
    data = {"name": pool.name} | ({"moved_to": move_to.name, "tasks": moved} if move_to else {})
    record(pool, Kind.POOL_REMOVED, data=data, stamp=stamp)
    return moved


def describe_count(number: int) -> str:
    if number > MOST_MOVED:
        return f"more than {MOST_MOVED:,} open tasks"
    return "1 open task" if number == 1 else f"{number:,} open tasks"


MOVE = f"""with {TrustedCaller.cte}, moved as (
    update ledger_task t set pool_id = %(to_pool)s,
        agent_id = case when t.agent_id = %(pool)s or t.state in ({sql.quoted(moves.WAITING)})
            then %(to)s else t.agent_id end,
        retry_on = coalesce(%(to_retry_on)s::text, t.retry_on),
        version = t.version + 1, updated_at = %(now)s
    where t.id = any(array(
        select w.id from ledger_task w where w.pool_id = %(pool)s
            and w.state not in ({moves.FINAL_STATES}) order by w.id for no key update))
    returning t.id, t.project_id, t.agent_id, t.state
), journaled as ({
    journal.insert_without_states(
        "moved",
        kind=f"'{Kind.TASK_CHANGED}'",
        subject="task",
        data="jsonb_build_object('changed', jsonb_build_array('agent'), "
        "'from_agent', %(from_name)s::text, 'to_agent', %(to_name)s::text)",
    )
}) select count(*) as number from moved"""


def move_tasks(pool: Agent, to: Agent, *, stamp: Stamp) -> int:
    known = TrustedCaller(stamp.actor, project_id=pool.project_id, request_id=stamp.request_id)
    number: int = sql.run(
        MOVE,
        pool=pool.pk,
        to=to.pk,
        to_pool=to.pk if to.is_pool else None,
        to_retry_on=to.retry_on if to.is_pool else None,
        from_name=pool.name,
        to_name=to.name,
        now=stamp.at,
        **known.params,
    )[0]["number"]
    return number


# ---- read


def get(id_or_name: str, *, project: Project) -> Agent:
    """Return the open pool with this name; raises UnknownAgent and NotAPool."""
    pool = agents.get_by_name(id_or_name, project=project)
    if not pool.is_pool:
        raise NotAPool(f"'{pool.name}' is an agent.")
    return pool


def list_members(pool: Agent) -> list[Agent]:
    return list(Agent.objects.filter(pool_seats__pool=pool).order_by("name"))


def expand(found: Iterable[Agent]) -> list[Agent]:
    """Return these agents, with the members of pools in their place, each once."""
    asked = list(found)
    members = Agent.objects.filter(pool_seats__pool__in=[each for each in asked if each.is_pool])
    chosen = {agent.pk: agent for agent in asked if not agent.is_pool}
    if any(agent.is_pool for agent in asked):
        chosen |= {agent.pk: agent for agent in members}
    return [chosen[id] for id in sorted(chosen)]


def name_pools_of(agent_ids: Collection[UUID]) -> dict[UUID, list[str]]:
    rows = PoolMember.objects.filter(agent__in=agent_ids).order_by("pool__name")
    names: dict[UUID, list[str]] = defaultdict(list)
    for agent, name in rows.values_list("agent", "pool__name"):
        names[agent].append(name)
    return names


def count_open(pool: Agent) -> int:
    rows = Task.objects.filter(pool=pool).exclude(state__in=FINAL).order_by()
    return rows[: MOST_MOVED + 1].count()


# ---- steps


def lock(pool: Agent, members: Iterable[Agent]) -> list[Agent]:
    # Agents are locked in one order, so that changes of several pools can't wait for each other.
    ids = [pool.pk, *(agent.pk for agent in members)]
    rows = Agent.objects.select_for_update(no_key=True).filter(pk__in=ids).order_by("pk")
    found = {agent.pk: agent for agent in rows}
    locked = found.pop(pool.pk)
    if not locked.is_pool:
        raise NotAPool(f"'{locked.name}' is an agent.")
    agents.check_open(locked)
    return sorted(found.values(), key=lambda agent: agent.name)


def count_seats(found: Collection[Agent]) -> dict[UUID, int]:
    seats: dict[UUID, int] = defaultdict(int)
    for id in PoolMember.objects.filter(agent__in=found).values_list("agent", flat=True):
        seats[id] += 1
    return seats


def names_of(found: Collection[Agent]) -> list[str]:
    return [agent.name for agent in found]


def record(pool: Agent, kind: Kind, *, data: dict[str, Any], stamp: Stamp) -> None:
    agents.record_change(pool, kind, data=data, stamp=stamp)
