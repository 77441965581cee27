"""The idle check: unacknowledged instructions of idle agents are sent again, or given up."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from psycopg.types.json import Jsonb

from ledger.database import server_time, sql
from ledger.database.sql import Row
from ledger.instructions import RETRIES, insert_event
from ledger.journal import Actor, Kind, Stamp, clock
from ledger.models import Project
from ledger.moves import instruction_to
from ledger.secrets.notes import noted
from ledger.secrets.redaction import stripped
from ledger.states import InstructionState
from ledger.tokens import TrustedCaller
from retries.escalations import lifecycle

logger = logging.getLogger(__name__)

AGENTS_PER_BATCH = 200


@dataclass(frozen=True, slots=True)
class ReminderCounts:
    """The number of instructions that an idle check requeued, and that it failed."""

    requeued: int = 0
    given_up: int = 0

    def __add__(self, other: "ReminderCounts") -> "ReminderCounts":
        return ReminderCounts(self.requeued + other.requeued, self.given_up + other.given_up)


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
journaled_requeued as ({insert_event("requeued", Kind.INSTRUCTION_REQUEUED)}),
journaled_failed as ({insert_event("failed", Kind.INSTRUCTION_FAILED)}),
opened as ({lifecycle.insert_for_instructions("failed")}),
journaled_opened as ({lifecycle.insert_opened_events("opened")})
select (select count(*) from requeued) as requeued, f.id, f.max_retries,
    left(f.content, 50) as start
from (select) as one left join failed f on true"""


# When a person sends again, the queue and the age do not matter, but the number of retries does.
SEND_AGAIN = f"""with {TrustedCaller.cte}, moved as ({
    instruction_to(
        InstructionState.QUEUED,
        where="i.id = any(%(ids)s) and i.tracked and i.retry_count < i.max_retries",
        sets="retry_count = i.retry_count + 1, position = -nextval('ledger_instruction_position')",
    )
}), journaled as ({insert_event("moved", Kind.INSTRUCTION_REQUEUED, data=f"{RETRIES} || %(note)s")})
select * from moved"""


def send_again(ids: Iterable[UUID], *, note: str = "", stamp: Stamp) -> list[Row]:
    """Queue these instructions again at the head of the queue; return the rows that changed."""
    # Only instructions that are delivered, unacknowledged, and have a retry left change.
    return sql.run(
        SEND_AGAIN,
        ids=list(ids),
        note=Jsonb(noted(note)),
        now=stamp.at,
        **TrustedCaller(stamp.actor, request_id=stamp.request_id).params,
    )


def retry_unacknowledged(
    *,
    now: datetime | None = None,
    min_age: timedelta | None = None,
    project: Project | None = None,
    actor: Actor | None = None,
) -> ReminderCounts:
    """Run the idle check for all agents, or for those of one project."""
    # Age only delays a reminder. An instruction is given up when it has no retries left.
    now = now or server_time.now()
    if min_age is None:
        min_age = timedelta(seconds=settings.TENFOUR["INSTRUCTION_MIN_AGE"])
    before = now - min_age
    total = ReminderCounts()
    for agents in find_idle_agents(before, project_id=project.id if project else None):
        total += remind(agents, before=before, stamp=Stamp(actor or clock("idle_check"), now))
    return total


def find_idle_agents(before: datetime, *, project_id: UUID | None) -> Iterator[list[UUID]]:
    rows = sql.run(IDLE, before=before, project=project_id)
    for start in range(0, len(rows), AGENTS_PER_BATCH):
        yield [row["agent_id"] for row in rows[start : start + AGENTS_PER_BATCH]]


def remind(agents: list[UUID], *, before: datetime, stamp: Stamp) -> ReminderCounts:
    rows = sql.run(
        REMIND, agents=agents, before=before, now=stamp.at, **TrustedCaller(stamp.actor).params
    )
    failed = [row for row in rows if row["id"]]
    for row in failed:
        logger.warning(
            "Instruction %s failed after %s retries: %s...",
            row["id"],
            row["max_retries"],
            # on one line: the text must not forge other lines of the log
            stripped(row["start"]).replace("\n", " ").replace("\t", " "),
        )
    return ReminderCounts(rows[0]["requeued"], len(failed))
