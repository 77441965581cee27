"""Schemas of dead letters."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field, StrictBool

from ledger.schemas.shapes import AGENT_ID, ID, Part, Shape, field
from ledger.schemas.shared import AGENT_ID_OR_NAME, MOST_ROWS, In, ListQuery


class DeadLetterQuery(ListQuery):
    state: Literal["", "open", "replayed", "dismissed"] = Field(
        "", description="open, replayed, or dismissed; all if empty"
    )
    agent: str = Field("", description=AGENT_ID_OR_NAME)
    type: str = Field("", description="the task's type")
    assignee: str = Field("", description="the assignee's username")


class DeadLetterOut(Shape):
    id: UUID = field("the dead letter's id")
    task: UUID = field("the task that failed", source="task_id")
    agent: str = field("the agent's name", "coder", source="agent.name")
    agent_id: UUID = field("the agent's id", AGENT_ID)
    type: str = field("the task's type", "code")
    payload: Any = field("the task's payload", {"action": "Add the error and use it"})
    error: str = field("the last error", "1 test failed")
    reason: str = field("why the task failed permanently", "max_retries_exceeded")
    retry_count: int = field("how many of the task's attempts failed", 3)
    failed_at: datetime = field("when the task failed")
    closed_at: datetime | None = field("when it was closed; null while it is open")
    closed_as: str | None = field("replayed or dismissed; null while it is open")
    closed_by: str | None = field(
        "who closed it; null while it is open", source="closed_by_name", empty_is_null=True
    )
    assignee: str | None = field(
        "the username of the person who takes care of it and its task; null if there is none",
        source="assignee_name",
    )
    note: str = field("the note of the person who closed it")
    replayed_as: UUID | None = field(
        "the task that replaced it; null if there is none", source="replayed_as_id"
    )


class ReplayIn(In, example={"payload": {"action": "Add the error and use it"}}):
    payload: Any = Field(
        None,
        description="the new task's payload, if it is another one; redacted values can only be "
        "left or removed",
    )


class DismissIn(In, example={"note": "no longer needed"}):
    note: str = Field("", max_length=2000, description="a note for the journal")
    dependents: Literal["continue", "block", "skip"] = Field(
        "continue", description="what to do with the tasks that depend on it"
    )


class BulkIn(In, example={"action": "replay", "agent": "coder", "dry_run": True}):
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


class NotDoneOut(Part):
    id: UUID = field("the dead letter's id", AGENT_ID)
    reason: str = field("why it was not closed", "It is already dismissed.")


class BulkOut(Shape):
    matched: int = field("number of matching dead letters that the action can close", 1)
    changed: int = field("number of dead letters replayed or dismissed", 1)
    left: int = field(
        "number of matching dead letters beyond the 100 of this call; repeat the call to close them"
    )
    ids: list[UUID] = field("the dead letters that were replayed or dismissed", [ID])
    not_done: list[NotDoneOut] = field(
        "requested dead letters that the action can't close, at most 100, with the reason"
    )
