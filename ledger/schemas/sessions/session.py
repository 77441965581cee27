"""Schemas of sessions, their messages and their tasks."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field, StrictBool

from ledger.models import Session
from ledger.models.session import TrackerName
from ledger.schemas.shapes import AGENT_ID, Part, Shape, field
from ledger.schemas.shared import AGENT_ID_OR_NAME, AGENT_NAME, In, ListQuery
from ledger.sessions.storing import EXTERNAL_ID_LENGTH, TITLE_LENGTH
from ledger.states import SessionTaskState

TRACKER = (
    "what finds tasks in the messages: 'todo' reads the to-do lists of coding agents, 'llm' asks a "
    "model, 'none' only stores"
)


class SessionIn(In, example={"agent": "coder", "external_id": "8c1f", "tracker": "todo"}):
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


class MessageCounts(Part):
    pending: int = field("messages that wait in the buffer", 3, source="pending_count")
    running: int = field("messages that are being processed", source="running_count")
    success: int = field("messages that were processed", 16, source="success_count")
    failed: int = field("messages whose batch failed", source="failed_count")
    disabled: int = field("messages that are stored and never processed", source="disabled_count")


class TaskCounts(Part):
    pending: int = field("tasks that were not begun", 1)
    running: int = field("tasks that are being worked on", 1)
    success: int = field("tasks that succeeded", 2)
    failed: int = field("tasks that failed")


class SessionOut(Shape):
    id: UUID = field("the session's id")
    agent: str = field(AGENT_NAME, "coder", source="agent.name")
    agent_id: UUID = field("the agent's id", AGENT_ID)
    external_id: str | None = field("the caller's own id of the session, or null", "8c1f")
    title: str = field("its title, or the start of the first prompt", "Fix the planner tests")
    tracker: TrackerName = field(TRACKER, "todo")
    disable_task_tracking: bool = field("true if messages are never processed")
    metadata: dict[str, Any] = field("the caller's own data about it")
    preferences: list[str] = field(
        "what the user wants beyond a single task", ["Answer in English"]
    )
    messages: MessageCounts = field("number of messages by state", source=".")
    tasks: TaskCounts = field("number of tasks by state", given=True)
    locked: bool = field("true while a worker processes it", given=True)
    last_outcome: str | None = field(
        "outcome of the last batch: success, failed, lost, or null", "success"
    )
    last_message_at: datetime = field("when its last message came, or it was created")
    created_at: datetime = field("when it was created")
    updated_at: datetime = field("when it last changed")
    version: int = field("the version, which every change raises", 8)


class SessionQuery(ListQuery):
    agent: str = Field("", description=AGENT_ID_OR_NAME)


def session_out(row: Session, *, now: datetime) -> dict[str, Any]:
    settled = row.task_success_count + row.task_failed_count + row.task_dropped_count
    tasks = {
        "pending": row.task_count - row.task_running_count - settled,
        "running": row.task_running_count,
        "success": row.task_success_count,
        "failed": row.task_failed_count,
        "dropped": row.task_dropped_count,
    }
    return SessionOut.write(row, tasks=tasks, locked=row.is_locked(now))


class StatusOut(MessageCounts, Shape):
    total: int = field("number of all messages", 19, source="message_count")
    locked: bool = field("true while a worker processes the session", given=True)


# ---- tasks


class SessionTaskOut(Shape):
    id: UUID = field("its id")
    order: int = field("its position in the session's list, from 1", 1)
    description: str = field("what is to be done", "Fix the planner tests")
    state: SessionTaskState = field("pending, running, success, failed, or dropped", "running")
    progress: list[str] = field(
        "notes on what was achieved, oldest first", ["Two of three tests pass"]
    )
    message_orders: list[int] = field("the positions of its messages", [1, 2, 5], given=True)
    task: UUID | None = field(
        "the task that was made of it or linked to it, or null", source="task_id"
    )
    version: int = field("the version, which every change raises", 3)
    created_at: datetime = field("when it was found")
    updated_at: datetime = field("when it last changed")


class SessionTaskList(Shape):
    data: list[SessionTaskOut] = field("tasks in their order")


# ---- flush


class FlushOut(Shape):
    processed: int = field("number of messages that were processed", 3)


# ---- retry


class RetryIn(In, example={"tracker": "todo"}):
    tracker: Literal["todo", "llm"] | None = Field(
        None, description="what reads the session from now on; null keeps its tracker"
    )


class RetryOut(Shape):
    returned: int = field("number of failed messages that returned to the buffer", 16)
