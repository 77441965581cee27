"""The shapes of agents: what comes in, what goes out."""

from datetime import datetime
from uuid import UUID

from ninja import Schema
from pydantic import ConfigDict, Field, StrictBool, StrictInt

from ledger.models.agent import CONCURRENCY, SYSTEM_TEXT_LENGTH
from ledger.schemas.shared import AGENT_ID, AT, In, Listed
from ledger.states import BreakerState


class BreakerOut(Schema):
    state: BreakerState
    failures: int = Field(description="in a row")
    reason: str
    opened_at: datetime | None
    retry_at: datetime | None = Field(description="when an open one lets a probe through")
    held_tasks: int = Field(description="tasks that wait until it is no longer open")


class AgentOut(Schema):
    id: UUID
    name: str
    paused: bool
    concurrency: int | None = Field(description="attempts that may run at once; null: any number")
    system_text: str = Field(description="what stands before every prompt of its tasks")
    running: int = Field(description="attempts under way")
    breaker: BreakerOut
    last_seen_at: datetime | None
    silent: bool = Field(description="it does not fetch although instructions wait")
    waiting: int = Field(description="instructions in its queue")
    awaiting_ack: int = Field(description="instructions it has got and not acknowledged")
    created_at: datetime

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "id": AGENT_ID,
                "name": "coder",
                "paused": False,
                "concurrency": 4,
                "system_text": "You work on the ledger. Run the tests before you report.",
                "running": 1,
                "breaker": {
                    "state": "closed",
                    "failures": 0,
                    "reason": "",
                    "opened_at": None,
                    "retry_at": None,
                    "held_tasks": 0,
                },
                "last_seen_at": AT,
                "silent": False,
                "waiting": 0,
                "awaiting_ack": 1,
                "created_at": AT,
            }
        }
    )


class AgentList(Listed):
    data: list[AgentOut]

    model_config = ConfigDict(
        json_schema_extra={"example": {"data": [], "next_cursor": None, "has_more": False}}
    )


class AgentPatch(In):
    paused: StrictBool | None = None
    concurrency: StrictInt | None = Field(
        None,
        ge=CONCURRENCY[0],
        le=CONCURRENCY[1],
        description="attempts that may run at once; null: any number",
    )
    system_text: str | None = Field(
        None,
        max_length=SYSTEM_TEXT_LENGTH,
        description="what stands before every prompt of its tasks; null or empty: nothing",
    )

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "paused": False,
                "concurrency": 4,
                "system_text": "You work on the ledger. Run the tests before you report.",
            }
        },
    )


class ResetOut(Schema):
    cancelled: int

    model_config = ConfigDict(json_schema_extra={"example": {"cancelled": 3}})
