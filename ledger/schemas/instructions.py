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
from ledger.schemas.shared import (
    AGENT_ID,
    AGENT_ID_OR_NAME,
    AGENT_NAME,
    AT,
    ID,
    MOST_ROWS,
    STATES,
    In,
    Listed,
    PageQuery,
    Registering,
)
from ledger.sql import Row
from ledger.states import InstructionState, Urgency, prefixed, urgency_of


class InstructionQuery(PageQuery):
    state: str = Field("", description=STATES)
    agent: str = Field("", description=AGENT_ID_OR_NAME)


class ExpectIn(In):
    type: str = Field(min_length=1, max_length=EXPECT_TYPE_LENGTH)
    match: dict[str, Any] = Field(default_factory=dict, max_length=MATCH_SCALARS)


class InstructionIn(Registering):
    agent: str = Field(description=AGENT_NAME)
    content: str = Field(
        description=f"what to do, at most {CONTENT_BYTES} bytes; it can be delivered more than "
        "once, so following it twice must be safe"
    )
    max_retries: StrictInt | None = Field(None, ge=0, le=MAX_RETRIES)
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
    "acknowledged_by": None,
    "outcome": None,
    "note": "",
    "deduplicated": False,
    "queued_at": AT,
    "delivered_at": AT,
    "acknowledged_at": None,
    "failed_at": None,
    "cancelled_at": None,
    "late_ack_at": None,
    "updated_at": AT,
    "late": False,
}


class InstructionOut(Schema):
    id: UUID
    agent: str
    agent_id: UUID
    task: UUID | None
    content: str
    text: str = Field(description="the text for the agent: the urgency's prefix and the content")
    urgency: Urgency
    state: InstructionState
    retry_count: int
    max_retries: int
    deliveries: int
    tracked: bool
    expect: dict[str, Any] | None
    on_failed: str
    sent_by: dict[str, str]
    resend_of: UUID | None
    acknowledged_by: dict[str, Any] | None
    outcome: str | None
    note: str
    deduplicated: bool
    queued_at: datetime
    delivered_at: datetime | None
    acknowledged_at: datetime | None
    failed_at: datetime | None
    cancelled_at: datetime | None
    late_ack_at: datetime | None
    updated_at: datetime
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
        "acknowledged_by": row["acknowledged_by"],
        "outcome": row["outcome"],
        "note": row["note"],
        "deduplicated": row.get("deduplicated", False),
        "queued_at": row["queued_at"],
        "delivered_at": row["delivered_at"],
        "acknowledged_at": row["acknowledged_at"],
        "failed_at": row["failed_at"],
        "cancelled_at": row["cancelled_at"],
        "late_ack_at": row["late_ack_at"],
        "updated_at": row["updated_at"],
        "late": row.get("late", False),
    }


class InstructionList(Listed):
    data: list[InstructionOut]

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"data": [INSTRUCTION], "next_cursor": None, "has_more": False}
        }
    )


class PullIn(In):
    limit: StrictInt = Field(10, ge=1, le=MOST_ROWS)

    model_config = ConfigDict(json_schema_extra={"example": {"limit": 10}})


class PullOut(Schema):
    data: list[InstructionOut]
    retry_after_s: int = Field(
        description="seconds to wait before the next pull; 0 if more instructions wait"
    )

    model_config = ConfigDict(
        json_schema_extra={"example": {"data": [INSTRUCTION], "retry_after_s": 2}}
    )


class AckIn(In):
    outcome: Literal["done", "accepted", "declined"] = "done"
    note: str = Field("", max_length=NOTE_LENGTH)

    model_config = ConfigDict(
        json_schema_extra={"example": {"outcome": "done", "note": "It is 1.4.2"}}
    )


class AckManyIn(In):
    ids: list[UUID] = Field(min_length=1, max_length=MOST_ROWS)

    model_config = ConfigDict(json_schema_extra={"example": {"ids": [ID]}})


class AckResult(Schema):
    id: UUID
    status: Literal[200, 404]
    instruction: InstructionOut | None


class AckManyOut(Schema):
    data: list[AckResult]

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
    type: str = Field(min_length=1, max_length=EXPECT_TYPE_LENGTH)
    data: dict[str, Any] = Field(default_factory=dict)

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"type": "fs_command", "data": {"command": "openspec", "found": True}}
        },
    )


class SignalOut(Schema):
    acknowledged: list[UUID] = Field(
        description="the instructions that expected the signal, oldest first"
    )

    model_config = ConfigDict(json_schema_extra={"example": {"acknowledged": [ID]}})
