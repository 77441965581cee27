"""Schemas of agents."""

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import Field, StrictBool, StrictInt

from ledger.models import Breaker
from ledger.models.agent import ACCOUNT_LENGTH, CONCURRENCY, SYSTEM_TEXT_LENGTH
from ledger.schemas.shapes import AGENT_ID, AT, Part, Shape, field
from ledger.schemas.shared import In, Listed
from ledger.states import BreakerState
from ledger.values.account_windows import LimitSource, LimitWindow

CONCURRENCY_HELP = "how many attempts may run at once; null for no limit"


def breaker_of(agent: Any) -> Breaker:
    # An agent gets its breaker at its first failure; until then, the breaker counts as closed.
    return getattr(agent, "breaker", None) or Breaker(
        agent=agent, state=BreakerState.CLOSED, failures=0, reason=""
    )


class BreakerOut(Part):
    state: BreakerState = field("an open breaker keeps the agent from claiming tasks", "closed")
    failures: int = field("consecutive failures")
    reason: str = field("why it opened")
    opened_at: datetime | None = field("when it opened; null while it is closed")
    kept_open_at: datetime | None = field(
        "when a person decided that it stays open; null if it is not kept open"
    )
    retry_at: datetime | None = field(
        "when an open breaker lets a probe through; null while it is kept open"
    )
    held_tasks: int = field("tasks that wait for the breaker to close", source="agent.held")


class AccountWindowOut(Part):
    window: LimitWindow = field("the window: five_hours, week or credit", "five_hours")
    used: float = field("the share that is used; from 1 on, the account's agents wait", 0.82)
    resets_at: datetime | None = field("when the window resets; null if that is unknown")
    source: LimitSource = field(
        "what says so: claude or codex (the program's record of a session), message (an error that "
        "an attempt reported), or client (a heartbeat)",
        "codex",
    )
    seen_at: datetime = field("when it said so")
    full_at: datetime | None = field(
        "when the window will be full at the pace since it began; null if it resets before, or if "
        "there are too few facts",
        given=True,
    )


class AccountOut(Shape):
    name: str = field("the account's name", "team-a")
    agents: int = field("how many agents' calls are billed to it", 4)
    waits_until: datetime | None = field(
        "until when its agents wait for a limit to reset; null if they don't", given=True
    )
    limits: list[AccountWindowOut] = field(
        "the newest figure about each window; empty if none is known", given=True
    )


class AgentOut(Shape):
    id: UUID = field("the agent's id", AGENT_ID)
    name: str = field("unique in the project", "coder")
    pools: list[str] = field("the pools whose tasks it claims, beside its own", given=True)
    is_pool: bool = field("true if the name is that of a pool, which makes no calls of its own")
    paused: bool = field("true if it gets no new tasks")
    waits_until: datetime | None = field(
        "when a limit of its account resets: until then it gets no new tasks; "
        "null or past if it does not wait"
    )
    waits_for: str = field("the line that names the last such limit; empty if none")
    account: str = field(
        "the account that its calls are billed to; by default an account with the agent's own name",
        "coder",
        source="account_name",
    )
    limits: list[AccountWindowOut] = field(
        "the newest figure about each window of the account; empty if none is known", given=True
    )
    concurrency: int | None = field(CONCURRENCY_HELP, 4)
    system_text: str = field(
        "the text before every prompt of the agent's tasks",
        "You work on the ledger. Run the tests before you report.",
    )
    running: int = field("running attempts", 1)
    breaker: BreakerOut = field("the agent's circuit breaker", source=breaker_of)
    last_seen_at: datetime | None = field("when it last called; null if never", AT)
    silent: bool = field(
        "true if the agent has not called for a while although work waits for it", given=True
    )
    waiting: int = field("instructions in the agent's queue")
    awaiting_ack: int = field("delivered instructions that are not acknowledged", 1)
    created_at: datetime = field("when it was created")


class AgentList(Listed, example={"data": []}):
    data: list[AgentOut] = field("the rows of this page")


class AgentIn(In, example={"name": "coder"}):
    name: str = Field(description="unique in the project")


class AgentPatch(
    In,
    example={
        "paused": False,
        "concurrency": 4,
        "account": "team-a",
        "system_text": "You work on the ledger. Run the tests before you report.",
    },
):
    paused: StrictBool | None = Field(
        None, description="true to pause the agent, false to resume it"
    )
    concurrency: StrictInt | None = Field(
        None, ge=CONCURRENCY[0], le=CONCURRENCY[1], description=CONCURRENCY_HELP
    )
    account: str | None = Field(
        None,
        max_length=ACCOUNT_LENGTH,
        description="the account that its calls are billed to; null or empty for its own account",
    )
    system_text: str | None = Field(
        None,
        max_length=SYSTEM_TEXT_LENGTH,
        description="the text before every prompt of the agent's tasks; null or empty for none",
    )


class ResetOut(Shape):
    cancelled: int = field("how many instructions were canceled", 3)
