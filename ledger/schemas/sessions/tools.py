"""Schemas of the ledger tools and of calls to them."""

from typing import Any

from ninja import Schema
from pydantic import ConfigDict, Field, StrictInt

from ledger.schemas.shared import In
from ledger.sessions.tool_calls import ToolAnswer, ToolCall
from ledger.sessions.tools import MOST_CALLS


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
