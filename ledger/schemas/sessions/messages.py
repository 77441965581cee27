"""Schemas of a session's messages."""

from datetime import datetime
from typing import Any
from uuid import UUID

from ninja import Schema
from pydantic import ConfigDict, Field

from ledger.models import Message
from ledger.schemas.shapes import AT, ID
from ledger.schemas.shared import STATES, Listed, PageQuery
from ledger.states import MessageState

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
