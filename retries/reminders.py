"""The idle check: whoever is idle and has not acknowledged is told again, louder, or given up."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from ledger import sql
from ledger.instructions import journalled
from ledger.journal import Actor, Kind, clock
from ledger.models import Project
from ledger.moves import instruction_to
from ledger.sql import Row
from ledger.states import InstructionState
from ledger.tokens import TrustedCaller
from retries.escalations import lifecycle

logger = logging.getLogger(__name__)

AGENTS_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Reminded:
    """How many instructions one idle check put back, and how many it gave up."""

    requeued: int = 0
    given_up: int = 0

    def __add__(self, other: "Reminded") -> "Reminded":
        return Reminded(self.requeued + other.requeued, self.given_up + other.given_up)


# One look into the agent's queue. As 'not exists' it may become a join with all that is queued:
# PostgreSQL believes in an empty queue until its next ANALYZE, and this check is what fills it.
NOTHING_WAITS_FOR = f"""(select true from ledger_instruction q
    where q.agent_id = {{}} and q.state = '{InstructionState.QUEUED}' limit 1) is null"""

# Delivered longer ago than the minimum age, while nothing else waits for the agent. A batch of
# agents is a short transaction, so an ack never waits long.
IDLE = f"""select a.id as agent_id from ledger_agent a
where (%(project)s::uuid is null or a.project_id = %(project)s)
    and (select true from ledger_instruction i
        where i.agent_id = a.id and i.state = '{InstructionState.DELIVERED}' and i.tracked
            and i.delivered_at <= %(before)s limit 1)
    and {NOTHING_WAITS_FOR.format("a.id")}
order by a.id"""

REQUEUE = instruction_to(
    InstructionState.QUEUED,
    where="i.id = any(array(select id from ripe where not spent))",
    sets="retry_count = i.retry_count + 1",
)
GIVE_UP = instruction_to(
    InstructionState.FAILED, where="i.id = any(array(select id from ripe where spent))"
)

# A caller without a project: events take the project from the row that moved.
REMIND = f"""with {TrustedCaller.cte}, ripe as materialized (
    select i.id, i.retry_count >= i.max_retries as spent from ledger_instruction i
    where i.agent_id = any(array(
            select a from unnest(%(agents)s::uuid[]) a where {NOTHING_WAITS_FOR.format("a")}))
        and i.state = '{InstructionState.DELIVERED}' and i.tracked and i.delivered_at <= %(before)s
    order by i.id for update of i skip locked
), requeued as ({REQUEUE}), failed as ({GIVE_UP}),
told_again as ({journalled("requeued", Kind.INSTRUCTION_REQUEUED)}),
told_off as ({journalled("failed", Kind.INSTRUCTION_FAILED)}),
opened as ({lifecycle.insert_for_instructions("failed")}),
told_people as ({lifecycle.insert_opened_events("opened")})
select (select count(*) from requeued) as requeued, f.id, f.max_retries,
    left(f.content, 50) as start
from (select) as one left join failed f on true"""


# By hand: neither the queue nor the age is asked, but the number of retries still is.
SEND_AGAIN = f"""with {TrustedCaller.cte}, moved as ({
    instruction_to(
        InstructionState.QUEUED,
        where="i.id = any(%(ids)s) and i.tracked and i.retry_count < i.max_retries",
        sets="retry_count = i.retry_count + 1, position = -nextval('ledger_instruction_position')",
    )
}), journalled as ({journalled("moved", Kind.INSTRUCTION_REQUEUED)})
select * from moved"""


def send_again(ids: Iterable[UUID], *, actor: Actor, now: datetime | None = None) -> list[Row]:
    """Remind of these now, first in the queue; the rows that really changed.

    Those that are not delivered and unacknowledged, or have no retry left, stay as they are.
    """
    return sql.run(
        SEND_AGAIN, ids=list(ids), now=now or timezone.now(), **TrustedCaller(actor).params
    )


def retry_unacknowledged(
    *,
    now: datetime | None = None,
    min_age: timedelta | None = None,
    project: Project | None = None,
    actor: Actor | None = None,
) -> Reminded:
    """Run the idle check over all agents, or those of one project.

    Age only delays a reminder: what gives an instruction up is its number of retries alone.
    """
    now = now or timezone.now()
    if min_age is None:
        min_age = timedelta(seconds=settings.TENFOUR["INSTRUCTION_MIN_AGE"])
    before = now - min_age
    total = Reminded()
    for agents in idle_agents(before, project_id=project.id if project else None):
        total += remind(agents, before=before, now=now, actor=actor or clock("idle_check"))
    return total


def idle_agents(before: datetime, *, project_id: UUID | None) -> Iterator[list[UUID]]:
    """The agents to remind, in batches."""
    rows = sql.run(IDLE, before=before, project=project_id)
    for start in range(0, len(rows), AGENTS_AT_ONCE):
        yield [row["agent_id"] for row in rows[start : start + AGENTS_AT_ONCE]]


def remind(agents: list[UUID], *, before: datetime, now: datetime, actor: Actor) -> Reminded:
    """Requeue or give up what these agents ignored, in one statement; logs what was given up."""
    rows = sql.run(REMIND, agents=agents, before=before, now=now, **TrustedCaller(actor).params)
    failed = [row for row in rows if row["id"]]
    for row in failed:
        logger.warning(
            "Instruction %s failed after %s retries: %s...",
            row["id"],
            row["max_retries"],
            row["start"],
        )
    return Reminded(rows[0]["requeued"], len(failed))
