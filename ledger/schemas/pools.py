"""Schemas of pools."""

from datetime import datetime
from uuid import UUID

from ninja import Schema
from pydantic import Field, StrictBool

from ledger.pools.membership import MOST_MEMBERS
from ledger.schemas.shapes import AGENT_ID, AT, Part, Shape, field
from ledger.schemas.shared import In
from ledger.states import BreakerState, RetryOn

RETRY_ON = (
    "the members that retry a task, unless the task says otherwise: any, same (the one that had it "
    "last), or other (not the one that failed last, while another one can)"
)


class PoolMemberOut(Part):
    agent: str = field("the agent's name", "coder", source="name")
    agent_id: UUID = field("the agent's id", AGENT_ID, source="id")
    hold: str = field(
        "why it claims nothing now: paused, at_limit, breaker_open, full, or silent; else empty",
        given=True,
    )
    running: int = field("its running attempts, also those of other tasks", 1)
    concurrency: int | None = field("how many attempts it may run at once; null for no limit", 4)
    breaker: BreakerState = field("the state of its circuit breaker", "closed")
    waits_until: datetime | None = field("when a limit of its account resets, or null")
    last_seen_at: datetime | None = field("when it last called; null if never", AT)


class PoolOut(Shape):
    id: UUID = field("the pool's id")
    name: str = field("unique among the project's pools and agents", "reviewers")
    paused: bool = field("true if none of its tasks is handed out")
    retry_on: RetryOn = field(RETRY_ON, "any")
    queued: int = field("tasks in its queue; the count stops at 1,000", 3, given=True)
    retries: int = field("tasks that wait for a retry; the count stops at 1,000", given=True)
    running: int = field("tasks of it that its members run", 2, given=True)
    done: int = field("tasks done in the last 24 hours; the count stops at 10,000", 40, given=True)
    oldest_at: datetime | None = field(
        "since when the longest-waiting of the queue's first 100 tasks waits, or null", given=True
    )
    members: list[PoolMemberOut] = field("its members, by name", given=True)
    created_at: datetime = field("when it was created")


class PoolIn(In, example={"name": "reviewers", "members": ["coder", "tester"]}):
    name: str = Field(description="unique among the project's pools and agents")
    members: list[str] = Field(
        default_factory=list, max_length=MOST_MEMBERS, description="names of agents"
    )
    retry_on: RetryOn = Field(RetryOn.ANY, description=RETRY_ON)


class PoolPatch(In, example={"add": ["tester"]}):
    paused: StrictBool | None = Field(
        None, description="true to hand out none of its tasks, false to resume"
    )
    retry_on: RetryOn | None = Field(None, description=f"{RETRY_ON}; for tasks sent from now on")
    add: list[str] = Field(
        default_factory=list, max_length=MOST_MEMBERS, description="names of new members"
    )
    remove: list[str] = Field(
        default_factory=list, max_length=MOST_MEMBERS, description="names of members to remove"
    )


class PoolDeleteQuery(Schema):
    move_to: str = Field("", description="the agent or pool that gets the pool's open tasks")


class PoolRemovedOut(Shape):
    moved: int = field("how many open tasks went to 'move_to'", 3)
