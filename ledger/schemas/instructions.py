"""Schemas of instructions and signals."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from ninja import Schema
from pydantic import ConfigDict, Field, StrictBool, StrictInt

from ledger.instructions import (
    CONTENT_BYTES,
    EXPECT_TYPE_LENGTH,
    MATCH_SCALARS,
    MAX_RETRIES,
    NOTE_LENGTH,
)
from ledger.schemas.shapes import AGENT_ID, AT, ID
from ledger.schemas.shared import (
    AGENT_ID_OR_NAME,
    AGENT_NAME,
    MOST_ROWS,
    STATES,
    In,
    Listed,
    ListQuery,
    Registering,
)
from ledger.sql import Row
from ledger.standing_instructions.firing import SESSION_LENGTH
from ledger.states import InstructionState, Urgency, Way, prefixed, urgency_of


class InstructionQuery(ListQuery):
    state: str = Field("", description=STATES)
    agent: str = Field("", description=AGENT_ID_OR_NAME)


class ExpectIn(In):
    type: str = Field(min_length=1, max_length=EXPECT_TYPE_LENGTH, description="the signal's type")
    match: dict[str, Any] = Field(
        default_factory=dict,
        max_length=MATCH_SCALARS,
        description="keys and values that the signal's data must contain",
    )


class InstructionIn(Registering):
    agent: str = Field(description=AGENT_NAME)
    content: str = Field(
        description=f"what to do, at most {CONTENT_BYTES} bytes; it can be delivered more than "
        "once, so following it twice must be safe"
    )
    max_retries: StrictInt | None = Field(
        None,
        ge=0,
        le=MAX_RETRIES,
        description="reminders after the first delivery; the setting's default if missing",
    )
    tracked: StrictBool = Field(True, description="false to deliver it once, without retries")
    expect: ExpectIn | None = Field(None, description="a signal that acknowledges it")
    priority: StrictBool = Field(False, description="true to put it at the front of the queue")
    on_failed: Literal["record", "escalate"] | None = Field(
        None,
        description="what happens when it fails; the default is 'escalate' if it names a task or a "
        "person sends it, else 'record'",
    )
    task: UUID | None = Field(None, description="the task that it belongs to")

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "agent": "coder",
                "content": "Check if the OpenSpec CLI is available",
                "expect": {"type": "fs_command", "match": {"command": "openspec"}},
            }
        },
    )


INSTRUCTION: dict[str, Any] = {
    "id": ID,
    "agent": "coder",
    "agent_id": AGENT_ID,
    "task": None,
    "content": "Check if the OpenSpec CLI is available",
    "text": "**IMPORTANT:** Check if the OpenSpec CLI is available",
    "urgency": "important",
    "state": "delivered",
    "retry_count": 2,
    "max_retries": 3,
    "deliveries": 3,
    "tracked": True,
    "expect": {"type": "fs_command", "match": {"command": "openspec"}},
    "on_failed": "record",
    "sent_by": {"type": "token", "name": "producer"},
    "resend_of": None,
    "rule": None,
    "holds": None,
    "acknowledged_by": None,
    "outcome": None,
    "note": "",
    "deduplicated": False,
    "queued_at": AT,
    "first_delivered_at": AT,
    "delivered_at": AT,
    "delivered_via": "tool_call",
    "delivered_session": "07d0bff0-1dd4-41b3-87cd-5fee1c553c0e",
    "delivered_call": 14,
    "read_at": AT,
    "acknowledged_at": None,
    "failed_at": None,
    "cancelled_at": None,
    "late_ack_at": None,
    "updated_at": AT,
    "late": False,
}


class InstructionOut(Schema):
    id: UUID = Field(description="the instruction's id")
    agent: str = Field(description="the agent's name")
    agent_id: UUID = Field(description="the agent's id")
    task: UUID | None = Field(description="the task that it belongs to, or null")
    content: str = Field(description="the text without a prefix")
    text: str = Field(description="the text for the agent: the urgency's prefix and the content")
    urgency: Urgency = Field(description="how urgent it is after its reminders")
    state: InstructionState = Field(description="queued, delivered, or how it ended")
    retry_count: int = Field(description="reminders so far")
    max_retries: int = Field(description="reminders after the first delivery")
    deliveries: int = Field(description="how often it was delivered")
    tracked: bool = Field(description="true if it needs an acknowledgment")
    expect: dict[str, Any] | None = Field(description="the signal that acknowledges it, or null")
    on_failed: str = Field(description="what happens when it fails: record or escalate")
    sent_by: dict[str, str] = Field(description="who sent it: type and name")
    resend_of: UUID | None = Field(description="the failed instruction that it repeats, or null")
    rule: UUID | None = Field(description="the standing instruction that sent it, or null")
    holds: int | None = Field(
        description="how often it kept its agent from stopping; null if it never does"
    )
    acknowledged_by: dict[str, Any] | None = Field(
        description="the signal or call that acknowledged it, or null"
    )
    outcome: str | None = Field(description="done, accepted, or declined; null before")
    note: str = Field(description="the agent's note")
    deduplicated: bool = Field(description="true if the same text was already waiting")
    queued_at: datetime = Field(description="when it was last queued")
    first_delivered_at: datetime | None = Field(description="the first delivery, or null")
    delivered_at: datetime | None = Field(description="the last delivery, or null")
    delivered_via: Way | None = Field(description="the way of the last delivery, or null")
    delivered_session: str | None = Field(
        description="the agent's session that got it last; null if it is not known"
    )
    delivered_call: int | None = Field(
        description="the number of the session's tool call that it came with, or null"
    )
    read_at: datetime | None = Field(
        description="the agent's first step after a delivery, or null if there was none yet"
    )
    acknowledged_at: datetime | None = Field(description="when it was acknowledged, or null")
    failed_at: datetime | None = Field(description="when it was given up, or null")
    cancelled_at: datetime | None = Field(description="when it was canceled, or null")
    late_ack_at: datetime | None = Field(description="when it was acknowledged too late, or null")
    updated_at: datetime = Field(description="when it was last changed")
    late: bool = Field(
        description="true if this acknowledgment came after it failed or was canceled"
    )

    model_config = ConfigDict(json_schema_extra={"example": INSTRUCTION})


def instruction_out(row: Row) -> dict[str, Any]:
    """Return the JSON object for an instruction's row."""
    expects = row["expect_type"]
    return {
        "id": row["id"],
        "agent": row["agent_name"],
        "agent_id": row["agent_id"],
        "task": row["task_id"],
        "content": row["content"],
        "text": prefixed(row["content"], row["retry_count"]),
        "urgency": urgency_of(row["retry_count"]),
        "state": row["state"],
        "retry_count": row["retry_count"],
        "max_retries": row["max_retries"],
        "deliveries": row["deliveries"],
        "tracked": row["tracked"],
        "expect": {"type": expects, "match": row["expect_match"]} if expects else None,
        "on_failed": row["on_failed"],
        "sent_by": {"type": row["sent_by_type"], "name": row["sent_by_name"]},
        "resend_of": row["resend_of_id"],
        "rule": row["rule_id"],
        "holds": row["holds"],
        "acknowledged_by": row["acknowledged_by"],
        "outcome": row["outcome"],
        "note": row["note"],
        "deduplicated": row.get("deduplicated", False),
        "queued_at": row["queued_at"],
        "first_delivered_at": row["first_delivered_at"],
        "delivered_at": row["delivered_at"],
        "delivered_via": row["delivered_via"],
        "delivered_session": row["delivered_to"],
        "delivered_call": row["delivered_call"],
        "read_at": row["read_at"],
        "acknowledged_at": row["acknowledged_at"],
        "failed_at": row["failed_at"],
        "cancelled_at": row["cancelled_at"],
        "late_ack_at": row["late_ack_at"],
        "updated_at": row["updated_at"],
        "late": row.get("late", False),
    }


class InstructionList(Listed):
    data: list[InstructionOut] = Field(description="the rows of this page")

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"data": [INSTRUCTION], "next_cursor": None, "has_more": False}
        }
    )


class PullIn(In):
    limit: StrictInt = Field(10, ge=1, le=MOST_ROWS, description="maximum number of instructions")
    via: Literal["pull", "heartbeat", "mcp", "cli"] = Field(
        "pull", description="the way by which the agent gets them, for their receipts"
    )

    model_config = ConfigDict(json_schema_extra={"example": {"limit": 10}})


class PullOut(Schema):
    data: list[InstructionOut] = Field(description="the instructions, in the order to follow them")
    retry_after_s: int = Field(
        description="seconds to wait before the next pull; 0 if more instructions wait"
    )

    model_config = ConfigDict(
        json_schema_extra={"example": {"data": [INSTRUCTION], "retry_after_s": 2}}
    )


class AckIn(In):
    outcome: Literal["done", "accepted", "declined"] = Field(
        "done", description="what the agent did with it"
    )
    note: str = Field("", max_length=NOTE_LENGTH, description="a note for the producer")

    model_config = ConfigDict(
        json_schema_extra={"example": {"outcome": "done", "note": "It is 1.4.2"}}
    )


class AckManyIn(In):
    ids: list[UUID] = Field(
        min_length=1, max_length=MOST_ROWS, description="the instructions to acknowledge"
    )

    model_config = ConfigDict(json_schema_extra={"example": {"ids": [ID]}})


class AckResult(Schema):
    id: UUID = Field(description="the instruction's id")
    status: Literal[200, 404] = Field(
        description="200, or 404 if the agent has no such instruction"
    )
    instruction: InstructionOut | None = Field(description="the instruction; null if it is unknown")


class AckManyOut(Schema):
    data: list[AckResult] = Field(description="one result per id, in the request's order")

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "data": [
                    {
                        "id": ID,
                        "status": 200,
                        "instruction": INSTRUCTION | {"state": "acknowledged"},
                    }
                ]
            }
        }
    )


class SignalIn(In):
    type: str = Field(
        min_length=1, max_length=EXPECT_TYPE_LENGTH, description="what happened, such as fs_command"
    )
    data: dict[str, Any] = Field(
        default_factory=dict,
        description="any JSON object; a 'path' is compared relative to the folder in 'cwd'",
    )
    session: str = Field(
        "", max_length=SESSION_LENGTH, description="the agent's session, for rules once per session"
    )
    attempt: UUID | None = Field(
        None, description="the attempt it belongs to; by default the agent's only live one"
    )

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"type": "fs_command", "data": {"command": "openspec", "found": True}}
        },
    )


class SignalOut(Schema):
    acknowledged: list[UUID] = Field(
        description="the instructions that expected the signal, oldest first"
    )
    sent: list[UUID] = Field(
        description="the instructions that standing instructions sent because of the signal"
    )

    model_config = ConfigDict(json_schema_extra={"example": {"acknowledged": [ID], "sent": []}})
