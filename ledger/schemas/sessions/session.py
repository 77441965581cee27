"""Schemas of sessions, their messages and their tasks."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from ninja import Schema
from pydantic import ConfigDict, Field, StrictBool

from ledger.models import Session, SessionTask
from ledger.models.session import TrackerName
from ledger.schemas.shapes import AGENT_ID, AT, ID
from ledger.schemas.shared import AGENT_ID_OR_NAME, AGENT_NAME, In, Listed, ListQuery
from ledger.sessions.storing import EXTERNAL_ID_LENGTH, TITLE_LENGTH
from ledger.states import SessionTaskState

TRACKER = (
    "what finds tasks in the messages: 'todo' reads the to-do lists of coding agents, 'llm' asks a "
    "model, 'none' only stores"
)


class SessionIn(In):
    agent: str | None = Field(
        None, description="the agent's name; an agent's own token may leave it out"
    )
    external_id: str | None = Field(
        None,
        max_length=EXTERNAL_ID_LENGTH,
        description="your own id of the session; a known one returns the session it belongs to",
    )
    tracker: Literal["todo", "llm", "none"] = Field("todo", description=TRACKER)
    disable_task_tracking: StrictBool = Field(
        False, description="true to store messages and never process them"
    )
    metadata: dict[str, Any] = Field(default_factory=dict, description="your own data about it")
    title: str = Field(
        "",
        max_length=TITLE_LENGTH,
        description="a title; without one, it is the start of the first prompt",
    )

    model_config = ConfigDict(
        json_schema_extra={"example": {"agent": "coder", "external_id": "8c1f", "tracker": "todo"}}
    )


COUNTS: dict[str, Any] = {"pending": 3, "running": 0, "success": 16, "failed": 0, "disabled": 0}
SESSION: dict[str, Any] = {
    "id": ID,
    "agent": "coder",
    "agent_id": AGENT_ID,
    "external_id": "8c1f",
    "title": "Fix the planner tests",
    "tracker": "todo",
    "disable_task_tracking": False,
    "metadata": {},
    "preferences": ["Answer in English"],
    "messages": COUNTS,
    "tasks": {"pending": 1, "running": 1, "success": 2, "failed": 0},
    "locked": False,
    "last_outcome": "success",
    "last_message_at": AT,
    "created_at": AT,
    "updated_at": AT,
    "version": 8,
}


class MessageCounts(Schema):
    pending: int = Field(description="messages that wait in the buffer")
    running: int = Field(description="messages that are being processed")
    success: int = Field(description="messages that were processed")
    failed: int = Field(description="messages whose batch failed")
    disabled: int = Field(description="messages that are stored and never processed")


class TaskCounts(Schema):
    pending: int = Field(description="tasks that were not begun")
    running: int = Field(description="tasks that are being worked on")
    success: int = Field(description="tasks that succeeded")
    failed: int = Field(description="tasks that failed")


class SessionOut(Schema):
    id: UUID = Field(description="the session's id")
    agent: str = Field(description=AGENT_NAME)
    agent_id: UUID = Field(description="the agent's id")
    external_id: str | None = Field(description="the caller's own id of the session, or null")
    title: str = Field(description="its title, or the start of the first prompt")
    tracker: TrackerName = Field(description=TRACKER)
    disable_task_tracking: bool = Field(description="true if messages are never processed")
    metadata: dict[str, Any] = Field(description="the caller's own data about it")
    preferences: list[str] = Field(description="what the user wants beyond a single task")
    messages: MessageCounts = Field(description="number of messages by state")
    tasks: TaskCounts = Field(description="number of tasks by state")
    locked: bool = Field(description="true while a worker processes it")
    last_outcome: str | None = Field(
        description="outcome of the last batch: success, failed, lost, or null"
    )
    last_message_at: datetime = Field(description="when its last message came, or it was created")
    created_at: datetime = Field(description="when it was created")
    updated_at: datetime = Field(description="when it last changed")
    version: int = Field(description="the version, which every change raises")

    model_config = ConfigDict(json_schema_extra={"example": SESSION})


class SessionQuery(ListQuery):
    agent: str = Field("", description=AGENT_ID_OR_NAME)


class SessionList(Listed):
    data: list[SessionOut] = Field(description="sessions, newest first")

    model_config = ConfigDict(
        json_schema_extra={"example": {"data": [SESSION], "next_cursor": None, "has_more": False}}
    )


def session_out(row: Session, *, now: datetime) -> dict[str, Any]:
    """Return the JSON object for a session."""
    return {
        "id": row.id,
        "agent": row.agent.name,
        "agent_id": row.agent_id,
        "external_id": row.external_id,
        "title": row.title,
        "tracker": row.tracker,
        "disable_task_tracking": row.disable_task_tracking,
        "metadata": row.metadata,
        "preferences": row.preferences,
        "messages": message_counts(row),
        "tasks": {
            "pending": row.task_count
            - row.task_running_count
            - row.task_success_count
            - row.task_failed_count
            - row.task_dropped_count,
            "running": row.task_running_count,
            "success": row.task_success_count,
            "failed": row.task_failed_count,
            "dropped": row.task_dropped_count,
        },
        "locked": row.is_locked(now),
        "last_outcome": row.last_outcome,
        "last_message_at": row.last_message_at,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "version": row.version,
    }


def message_counts(row: Session) -> dict[str, int]:
    return {
        "pending": row.pending_count,
        "running": row.running_count,
        "success": row.success_count,
        "failed": row.failed_count,
        "disabled": row.disabled_count,
    }


class StatusOut(MessageCounts):
    total: int = Field(description="number of all messages")
    locked: bool = Field(description="true while a worker processes the session")

    model_config = ConfigDict(
        json_schema_extra={"example": COUNTS | {"total": 19, "locked": False}}
    )


# ---- tasks

TASK: dict[str, Any] = {
    "id": ID,
    "order": 1,
    "description": "Fix the planner tests",
    "state": "running",
    "progress": ["Two of three tests pass"],
    "message_orders": [1, 2, 5],
    "task": None,
    "version": 3,
    "created_at": AT,
    "updated_at": AT,
}


class SessionTaskOut(Schema):
    id: UUID = Field(description="its id")
    order: int = Field(description="its position in the session's list, from 1")
    description: str = Field(description="what is to be done")
    state: SessionTaskState = Field(description="pending, running, success, failed, or dropped")
    progress: list[str] = Field(description="notes on what was achieved, oldest first")
    message_orders: list[int] = Field(description="the positions of its messages")
    task: UUID | None = Field(description="the task that was made of it or linked to it, or null")
    version: int = Field(description="the version, which every change raises")
    created_at: datetime = Field(description="when it was found")
    updated_at: datetime = Field(description="when it last changed")

    model_config = ConfigDict(json_schema_extra={"example": TASK})


class SessionTaskList(Schema):
    data: list[SessionTaskOut] = Field(description="tasks in their order")

    model_config = ConfigDict(json_schema_extra={"example": {"data": [TASK]}})


def session_task_out(row: SessionTask, message_orders: Sequence[int]) -> dict[str, Any]:
    """Return the JSON object for a session's task."""
    return {
        "id": row.id,
        "order": row.order,
        "description": row.description,
        "state": row.state,
        "progress": row.progress,
        "message_orders": list(message_orders),
        "task": row.task_id,
        "version": row.version,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
    }


# ---- flush


class FlushOut(Schema):
    processed: int = Field(description="number of messages that were processed")

    model_config = ConfigDict(json_schema_extra={"example": {"processed": 3}})


# ---- retry


class RetryIn(In):
    tracker: Literal["todo", "llm"] | None = Field(
        None, description="what reads the session from now on; null keeps its tracker"
    )

    model_config = ConfigDict(json_schema_extra={"example": {"tracker": "todo"}})


class RetryOut(Schema):
    returned: int = Field(description="number of failed messages that returned to the buffer")

    model_config = ConfigDict(json_schema_extra={"example": {"returned": 16}})
