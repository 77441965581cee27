"""Schemas of sessions, their messages and their tasks."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from ninja import Schema
from pydantic import ConfigDict, Field, StrictBool, StrictInt

from ledger.models import Message, Session, SessionTask
from ledger.models.session import TrackerName
from ledger.schemas.shared import (
    AGENT_ID,
    AGENT_ID_OR_NAME,
    AGENT_NAME,
    AT,
    ID,
    STATES,
    In,
    Listed,
    ListQuery,
    PageQuery,
)
from ledger.sessions.storing import EXTERNAL_ID_LENGTH, TITLE_LENGTH
from ledger.sessions.tool_calls import ToolAnswer, ToolCall
from ledger.sessions.tools import MOST_CALLS
from ledger.states import MessageState, SessionTaskState

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
            - row.task_failed_count,
            "running": row.task_running_count,
            "success": row.task_success_count,
            "failed": row.task_failed_count,
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


# ---- messages

MESSAGE_IN: dict[str, Any] = {
    "type": "object",
    "required": ["role"],
    "properties": {
        "role": {"type": "string", "description": "user, assistant, system, developer, or tool"},
        "content": {
            "anyOf": [
                {"type": "string"},
                {"type": "array", "items": {"type": "object"}},
                {"type": "null"},
            ],
            "description": "a text, or blocks in the form of OpenAI or Anthropic",
        },
        "tool_calls": {"type": "array", "items": {"type": "object"}, "description": "as OpenAI"},
        "tool_call_id": {"type": "string", "description": "as OpenAI, with the role tool"},
    },
}
MESSAGES_IN: dict[str, Any] = {
    "anyOf": [
        MESSAGE_IN,
        {"type": "array", "items": MESSAGE_IN, "minItems": 1, "maxItems": 100},
        {
            "type": "object",
            "required": ["messages"],
            "additionalProperties": False,
            "properties": {
                "messages": {"type": "array", "items": MESSAGE_IN, "minItems": 1, "maxItems": 100},
                "attempt": {
                    "type": "string",
                    "format": "uuid",
                    "description": "the attempt during which they were said",
                },
            },
        },
    ],
    "example": [
        {"role": "user", "content": "Fix the planner tests"},
        {"role": "assistant", "content": "I will look at them."},
    ],
}


class StoredOut(Schema):
    message_ids: list[UUID] = Field(description="the ids of the stored messages, in their order")
    pending: int = Field(description="number of messages that wait in the buffer")

    model_config = ConfigDict(json_schema_extra={"example": {"message_ids": [ID], "pending": 1}})


class MessageQuery(PageQuery):
    state: str = Field("", description=STATES)


MESSAGE: dict[str, Any] = {
    "id": ID,
    "order": 1,
    "role": "user",
    "content": [{"type": "text", "text": "Fix the planner tests"}],
    "state": "success",
    "task_order": 1,
    "planning": False,
    "attempt": None,
    "sent_at": AT,
    "created_at": AT,
}


class MessageOut(Schema):
    id: UUID = Field(description="the message's id")
    order: int = Field(description="its position in the session, from 1")
    role: str = Field(description="user, assistant, system, or tool")
    content: list[dict[str, Any]] = Field(
        description="its parts: text, thinking, tool_call, tool_result, media"
    )
    state: MessageState = Field(description="pending, running, success, failed, or disabled")
    task_order: int | None = Field(description="the order of the task it belongs to, or null")
    planning: bool = Field(description="true if it is about the plan as a whole")
    attempt: UUID | None = Field(description="the attempt during which it was said, or null")
    sent_at: datetime = Field(description="when it was said")
    created_at: datetime = Field(description="when it was stored")

    model_config = ConfigDict(json_schema_extra={"example": MESSAGE})


class MessageList(Listed):
    data: list[MessageOut] = Field(description="messages, oldest first")

    model_config = ConfigDict(
        json_schema_extra={"example": {"data": [MESSAGE], "next_cursor": None, "has_more": False}}
    )


def message_out(row: Message) -> dict[str, Any]:
    """Return the JSON object for a message, whose task is loaded."""
    return {
        "id": row.id,
        "order": row.order,
        "role": row.role,
        "content": row.content,
        "state": row.state,
        "task_order": row.session_task.order if row.session_task else None,
        "planning": row.planning,
        "attempt": row.attempt_id,
        "sent_at": row.sent_at,
        "created_at": row.created_at,
    }


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
    state: SessionTaskState = Field(description="pending, running, success, or failed")
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


# ---- flush and tool calls


class FlushOut(Schema):
    processed: int = Field(description="number of messages that were processed")

    model_config = ConfigDict(json_schema_extra={"example": {"processed": 3}})


class ToolCallIn(In):
    name: str = Field(max_length=64, description="the name of a ledger tool")
    arguments: dict[str, Any] = Field(default_factory=dict, description="the tool's arguments")
    id: str = Field("", max_length=200, description="your own id of the call")


class ToolCallsIn(In):
    calls: list[ToolCallIn] = Field(
        min_length=1, max_length=MOST_CALLS, description="the calls of one model response"
    )
    first_message: StrictInt | None = Field(
        None,
        ge=1,
        description="the order of the message with index 0; null for the last 32 messages",
    )

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "calls": [
                    {
                        "name": "insert_task",
                        "arguments": {"after_task_order": 0, "task_description": "Fix the tests"},
                    },
                    {
                        "name": "append_messages_to_task",
                        "arguments": {"task_order": 1, "message_id_range": [0, 1]},
                    },
                ],
                "first_message": 1,
            }
        }
    )

    def as_calls(self) -> list[ToolCall]:
        return [ToolCall(call.name, call.arguments, call.id) for call in self.calls]


class ToolAnswerOut(Schema):
    name: str = Field(description="the name of the tool")
    id: str = Field(description="the caller's id of the call")
    text: str = Field(description="the answer, for the model")
    done: bool = Field(description="false if the call could not be carried out")


class ToolAnswersOut(Schema):
    answers: list[ToolAnswerOut] = Field(description="an answer for each call, in their order")

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "answers": [
                    {"name": "insert_task", "id": "", "text": "Task 1 created.", "done": True}
                ]
            }
        }
    )


def answer_out(answer: ToolAnswer) -> dict[str, Any]:
    return {"name": answer.name, "id": answer.id, "text": answer.text, "done": answer.done}


class ToolOut(Schema):
    name: str = Field(description="the tool's name")
    description: str = Field(description="what it does")
    parameters: dict[str, Any] = Field(description="its arguments as JSON Schema")


class ToolList(Schema):
    data: list[ToolOut] = Field(description="the ledger tools")

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "data": [
                    {
                        "name": "finish",
                        "description": "Say that the batch is done.",
                        "parameters": {"type": "object", "properties": {}},
                    }
                ]
            }
        }
    )
