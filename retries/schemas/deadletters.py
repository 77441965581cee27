"""Schemas of dead letters."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from ninja import Schema
from pydantic import ConfigDict, Field, StrictBool

from ledger.models import DeadLetter
from ledger.schemas.shared import (
    AGENT_ID,
    AGENT_ID_OR_NAME,
    AT,
    ID,
    MOST_ROWS,
    In,
    Listed,
    ListQuery,
)

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


class DeadLetterQuery(ListQuery):
    state: Literal["", "open", "replayed", "dismissed"] = Field(
        "", description="open, replayed, or dismissed; all if empty"
    )
    agent: str = Field("", description=AGENT_ID_OR_NAME)
    type: str = Field("", description="the task's type")


class DeadLetterOut(Schema):
    id: UUID = Field(description="the dead letter's id")
    task: UUID = Field(description="the task that failed")
    agent: str = Field(description="the agent's name")
    agent_id: UUID = Field(description="the agent's id")
    type: str = Field(description="the task's type")
    payload: Any = Field(description="the task's payload")
    error: str = Field(description="the last error")
    reason: str = Field(description="why the task failed for good")
    retry_count: int = Field(description="how many of the task's attempts failed")
    failed_at: datetime = Field(description="when the task failed")
    closed_at: datetime | None = Field(description="when it was closed; null while it is open")
    closed_as: str | None = Field(description="replayed or dismissed; null while it is open")
    closed_by: str | None = Field(description="who closed it; null while it is open")
    note: str = Field(description="the note of the person who closed it")
    replayed_as: UUID | None = Field(description="the task that replaced it; null if there is none")

    model_config = ConfigDict(json_schema_extra={"example": DEAD_LETTER})


class DeadLetterList(Listed):
    data: list[DeadLetterOut] = Field(description="the rows of this page")

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"data": [DEAD_LETTER], "next_cursor": None, "has_more": False}
        }
    )


class DismissIn(In):
    note: str = Field("", max_length=2000, description="a note for the journal")
    dependents: Literal["continue", "block", "skip"] = Field(
        "continue", description="what to do with the tasks that depend on it"
    )

    model_config = ConfigDict(json_schema_extra={"example": {"note": "no longer needed"}})


class BulkIn(In):
    """Close at most 100 dead letters: give ids, a filter, or `all`."""

    action: Literal["replay", "dismiss"] = Field(
        description="replay them as new tasks, or dismiss them"
    )
    ids: list[UUID] | None = Field(
        None, max_length=MOST_ROWS, description="the dead letters to close"
    )
    agent: str = Field("", description="only open dead letters of this agent, by id or name")
    type: str = Field("", description="only open dead letters of this type")
    all_: StrictBool = Field(
        False,
        alias="all",
        description="true for every open dead letter of the project, the oldest 100 per call",
    )
    note: str = Field("", max_length=2000, description="a note for the journal")
    dependents: Literal["continue", "block", "skip"] = Field(
        "continue", description="with 'dismiss', what to do with the tasks that depend on them"
    )
    dry_run: StrictBool = Field(False, description="only count the matching dead letters")

    model_config = ConfigDict(
        json_schema_extra={"example": {"action": "replay", "agent": "coder", "dry_run": True}},
    )


class NotDoneOut(Schema):
    id: UUID = Field(description="the dead letter's id")
    reason: str = Field(description="why it was not closed")


class BulkOut(Schema):
    matched: int = Field(description="number of matching dead letters that the action can close")
    changed: int = Field(description="number of dead letters replayed or dismissed")
    left: int = Field(
        description="number of matching dead letters beyond the 100 of this call; repeat the call "
        "to close them"
    )
    ids: list[UUID] = Field(description="the dead letters that were replayed or dismissed")
    not_done: list[NotDoneOut] = Field(
        description="requested dead letters that the action can't close, at most 100, with the "
        "reason"
    )

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "matched": 1,
                "changed": 1,
                "left": 0,
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
