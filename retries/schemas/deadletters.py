"""Schemas of dead letters."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from ninja import Schema
from pydantic import ConfigDict, Field, StrictBool

from ledger.models import DeadLetter
from ledger.schemas.shared import AGENT_ID, AGENT_ID_OR_NAME, AT, ID, In, Listed, PageQuery

DEAD_LETTER: dict[str, Any] = {
    "id": ID,
    "task": ID,
    "agent": "coder",
    "agent_id": AGENT_ID,
    "type": "code",
    "payload": {"action": "Add the error and use it"},
    "error": "1 test failed",
    "reason": "max_retries_exceeded",
    "retry_count": 3,
    "failed_at": AT,
    "closed_at": None,
    "closed_as": None,
    "closed_by": None,
    "note": "",
    "replayed_as": None,
}


class DeadLetterQuery(PageQuery):
    state: Literal["", "open", "replayed", "dismissed"] = ""
    agent: str = Field("", description=AGENT_ID_OR_NAME)
    type: str = ""


class DeadLetterOut(Schema):
    id: UUID
    task: UUID
    agent: str
    agent_id: UUID
    type: str
    payload: Any
    error: str
    reason: str
    retry_count: int
    failed_at: datetime
    closed_at: datetime | None
    closed_as: str | None
    closed_by: str | None
    note: str
    replayed_as: UUID | None

    model_config = ConfigDict(json_schema_extra={"example": DEAD_LETTER})


class DeadLetterList(Listed):
    data: list[DeadLetterOut]

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"data": [DEAD_LETTER], "next_cursor": None, "has_more": False}
        }
    )


class DismissIn(In):
    note: str = Field("", max_length=2000)
    dependents: Literal["continue", "block", "skip"] = "continue"

    model_config = ConfigDict(json_schema_extra={"example": {"note": "no longer needed"}})


class BulkIn(In):
    """Close dead letters: give ids, a filter, or `all`."""

    action: Literal["replay", "dismiss"]
    ids: list[UUID] | None = Field(None, max_length=100, description="the dead letters to close")
    agent: str = Field("", description="only open dead letters of this agent, by id or name")
    type: str = Field("", description="only open dead letters of this type")
    all_: StrictBool = Field(
        False, alias="all", description="true to close every open dead letter of the project"
    )
    note: str = Field("", max_length=2000)
    dependents: Literal["continue", "block", "skip"] = "continue"
    dry_run: StrictBool = Field(False, description="only count the matching dead letters")

    model_config = ConfigDict(
        json_schema_extra={"example": {"action": "replay", "agent": "coder", "dry_run": True}},
    )


class NotDoneOut(Schema):
    id: UUID
    reason: str


class BulkOut(Schema):
    matched: int = Field(description="number of matching dead letters that the action can close")
    changed: int = Field(description="number of dead letters replayed or dismissed")
    ids: list[UUID] = Field(description="the dead letters that were replayed or dismissed")
    not_done: list[NotDoneOut] = Field(
        description="requested dead letters that the action can't close, with the reason"
    )

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "matched": 1,
                "changed": 1,
                "ids": [ID],
                "not_done": [{"id": AGENT_ID, "reason": "It is already dismissed."}],
            }
        }
    )


def dead_letter_out(letter: DeadLetter) -> dict[str, Any]:
    """Return the JSON object for a dead letter."""
    return {
        "id": letter.id,
        "task": letter.task_id,
        "agent": letter.agent.name,
        "agent_id": letter.agent_id,
        "type": letter.type,
        "payload": letter.payload,
        "error": letter.error,
        "reason": letter.reason,
        "retry_count": letter.retry_count,
        "failed_at": letter.failed_at,
        "closed_at": letter.closed_at,
        "closed_as": letter.closed_as,
        "closed_by": letter.closed_by_name or None,
        "note": letter.note,
        "replayed_as": letter.replayed_as_id,
    }
