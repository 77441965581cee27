"""Schemas of agents."""

from collections.abc import Collection
from datetime import datetime
from typing import Any
from uuid import UUID

from ninja import Schema
from pydantic import ConfigDict, Field, StrictBool, StrictInt

from ledger.models import Breaker
from ledger.models.agent import CONCURRENCY, SYSTEM_TEXT_LENGTH
from ledger.schemas.shapes import AGENT_ID, AT
from ledger.schemas.shared import In, Listed
from ledger.states import BreakerState

CONCURRENCY_HELP = "how many attempts may run at once; null for no limit"


class BreakerOut(Schema):
    state: BreakerState = Field(description="an open breaker keeps the agent from claiming tasks")
    failures: int = Field(description="consecutive failures")
    reason: str = Field(description="why it opened")
    opened_at: datetime | None = Field(description="when it opened; null while it is closed")
    kept_open_at: datetime | None = Field(
        description="when a person decided that it stays open; null if it is not kept open"
    )
    retry_at: datetime | None = Field(
        description="when an open breaker lets a probe through; null while it is kept open"
    )
    held_tasks: int = Field(description="tasks that wait for the breaker to close")


class AgentOut(Schema):
    id: UUID = Field(description="the agent's id")
    name: str = Field(description="unique in the project")
    paused: bool = Field(description="true if it gets no new tasks")
    waits_until: datetime | None = Field(
        description="when a limit of its account resets: until then it gets no new tasks; "
        "null or past if it does not wait"
    )
    waits_for: str = Field(description="the line that names the last such limit; empty if none")
    concurrency: int | None = Field(description=CONCURRENCY_HELP)
    system_text: str = Field(description="the text before every prompt of the agent's tasks")
    running: int = Field(description="running attempts")
    breaker: BreakerOut = Field(description="the agent's circuit breaker")
    last_seen_at: datetime | None = Field(description="when it last called; null if never")
    silent: bool = Field(
        description="true if the agent has not called for a while although work waits for it"
    )
    waiting: int = Field(description="instructions in the agent's queue")
    awaiting_ack: int = Field(description="delivered instructions that are not acknowledged")
    created_at: datetime = Field(description="when it was created")

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "id": AGENT_ID,
                "name": "coder",
                "paused": False,
                "waits_until": None,
                "waits_for": "",
                "concurrency": 4,
                "system_text": "You work on the ledger. Run the tests before you report.",
                "running": 1,
                "breaker": {
                    "state": "closed",
                    "failures": 0,
                    "reason": "",
                    "opened_at": None,
                    "kept_open_at": None,
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
    data: list[AgentOut] = Field(description="the rows of this page")

    model_config = ConfigDict(
        json_schema_extra={"example": {"data": [], "next_cursor": None, "has_more": False}}
    )


class AgentIn(In):
    name: str = Field(description="unique in the project")

    model_config = ConfigDict(json_schema_extra={"example": {"name": "coder"}})


class AgentPatch(In):
    paused: StrictBool | None = Field(
        None, description="true to pause the agent, false to resume it"
    )
    concurrency: StrictInt | None = Field(
        None,
        ge=CONCURRENCY[0],
        le=CONCURRENCY[1],
        description=CONCURRENCY_HELP,
    )
    system_text: str | None = Field(
        None,
        max_length=SYSTEM_TEXT_LENGTH,
        description="the text before every prompt of the agent's tasks; null or empty for none",
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
    cancelled: int = Field(description="how many instructions were canceled")

    model_config = ConfigDict(json_schema_extra={"example": {"cancelled": 3}})


NEVER_FAILED = Breaker(state=BreakerState.CLOSED, failures=0, reason="")


def agent_out(agent: Any, silent: Collection[UUID]) -> dict[str, Any]:
    """Return the JSON object for an agent with its counts; `silent` has silent agents' ids."""
    return {
        "id": agent.id,
        "name": agent.name,
        "paused": agent.paused,
        "waits_until": agent.waits_until,
        "waits_for": agent.waits_for,
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


def breaker_out(agent: Any) -> dict[str, Any]:
    # An agent gets a breaker at its first failure.
    breaker = getattr(agent, "breaker", None) or NEVER_FAILED
    return {
        "state": breaker.state,
        "failures": breaker.failures,
        "reason": breaker.reason,
        "opened_at": breaker.opened_at,
        "kept_open_at": breaker.kept_open_at,
        "retry_at": breaker.retry_at,
        "held_tasks": agent.held,
    }
