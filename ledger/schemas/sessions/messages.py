"""Schemas of a session's messages."""

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import Field

from ledger.schemas.shapes import ID, Shape, field
from ledger.schemas.shared import STATES, PageQuery
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


class StoredOut(Shape):
    message_ids: list[UUID] = field("the ids of the stored messages, in their order", [ID])
    pending: int = field("number of messages that wait in the buffer", 1)


class MessageQuery(PageQuery):
    state: str = Field("", description=STATES)


class MessageOut(Shape):
    id: UUID = field("the message's id")
    order: int = field("its position in the session, from 1", 1)
    role: str = field("user, assistant, system, or tool", "user")
    content: list[dict[str, Any]] = field(
        "its parts: text, thinking, tool_call, tool_result, media",
        [{"type": "text", "text": "Fix the planner tests"}],
    )
    state: MessageState = field("pending, running, success, failed, or disabled", "success")
    task_order: int | None = field(
        "the order of the task it belongs to, or null", 1, source="session_task.order"
    )
    planning: bool = field("true if it is about the plan as a whole")
    attempt: UUID | None = field(
        "the attempt during which it was said, or null", source="attempt_id"
    )
    sent_at: datetime = field("when it was said")
    created_at: datetime = field("when it was stored")
