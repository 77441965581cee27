"""Schemas of the ledger tools and of calls to them."""

from typing import Any

from pydantic import Field, StrictInt

from ledger.schemas.shapes import Part, Shape, field
from ledger.schemas.shared import In
from ledger.sessions.tool_calls import ToolCall
from ledger.sessions.tools import MOST_CALLS


class ToolCallIn(In):
    name: str = Field(max_length=64, description="the name of a ledger tool")
    arguments: dict[str, Any] = Field(default_factory=dict, description="the tool's arguments")
    id: str = Field("", max_length=200, description="your own id of the call")


class ToolCallsIn(
    In,
    example={
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
    },
):
    calls: list[ToolCallIn] = Field(
        min_length=1, max_length=MOST_CALLS, description="the calls of one model response"
    )
    first_message: StrictInt | None = Field(
        None,
        ge=1,
        description="the order of the message with index 0; null for the last 32 messages",
    )

    def as_calls(self) -> list[ToolCall]:
        return [ToolCall(call.name, call.arguments, call.id) for call in self.calls]


class ToolAnswerOut(Part):
    name: str = field("the name of the tool", "insert_task")
    id: str = field("the caller's id of the call")
    text: str = field("the answer, for the model", "Task 1 created.")
    done: bool = field("false if the call could not be carried out", True)


class ToolAnswersOut(Shape):
    answers: list[ToolAnswerOut] = field("an answer for each call, in their order")


class ToolOut(Part):
    name: str = field("the tool's name", "finish")
    description: str = field("what it does", "Say that the batch is done.")
    parameters: dict[str, Any] = field(
        "its arguments as JSON Schema", {"type": "object", "properties": {}}
    )


class ToolList(Shape):
    data: list[ToolOut] = field("the ledger tools")
