"""Schemas of instructions and signals."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field, StrictBool, StrictInt

from ledger.database.sql import Row
from ledger.instructions import (
    CONTENT_BYTES,
    EXPECT_TYPE_LENGTH,
    MATCH_SCALARS,
    MAX_RETRIES,
    NOTE_LENGTH,
)
from ledger.schemas.shapes import AGENT_ID, AT, ID, Part, Shape, example_of, field
from ledger.schemas.shared import (
    AGENT_ID_OR_NAME,
    AGENT_NAME,
    MOST_ROWS,
    STATES,
    In,
    ListQuery,
    Registering,
)
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


class InstructionIn(
    Registering,
    example={
        "agent": "coder",
        "content": "Check if the OpenSpec CLI is available",
        "expect": {"type": "fs_command", "match": {"command": "openspec"}},
    },
):
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


def read_expected(row: Row) -> dict[str, Any] | None:
    type = row["expect_type"]
    return {"type": type, "match": row["expect_match"]} if type else None


class InstructionOut(Shape, keyed=True):
    id: UUID = field("the instruction's id")
    agent: str = field("the agent's name", "coder", source="agent_name")
    agent_id: UUID = field("the agent's id", AGENT_ID)
    also_sent: list[UUID] = field(
        "if it was sent to a pool, the instructions to the other members; else empty",
        [],
        source=lambda row: row.get("also_sent") or [],
    )
    task: UUID | None = field("the task that it belongs to, or null", source="task_id")
    content: str = field("the text without a prefix", "Check if the OpenSpec CLI is available")
    text: str = field(
        "the text for the agent: the urgency's prefix and the content",
        "**IMPORTANT:** Check if the OpenSpec CLI is available",
        source=lambda row: prefixed(row["content"], row["retry_count"]),
    )
    urgency: Urgency = field(
        "how urgent it is after its reminders",
        "important",
        source=lambda row: urgency_of(row["retry_count"]),
    )
    state: InstructionState = field("queued, delivered, or how it ended", "delivered")
    retry_count: int = field("reminders so far", 2)
    max_retries: int = field("reminders after the first delivery", 3)
    deliveries: int = field("how often it was delivered", 3)
    tracked: bool = field("true if it needs an acknowledgment", True)
    expect: dict[str, Any] | None = field(
        "the signal that acknowledges it, or null",
        {"type": "fs_command", "match": {"command": "openspec"}},
        source=read_expected,
    )
    on_failed: str = field("what happens when it fails: record or escalate", "record")
    sent_by: dict[str, str] = field(
        "who sent it: type and name",
        {"type": "token", "name": "producer"},
        source=lambda row: {"type": row["sent_by_type"], "name": row["sent_by_name"]},
    )
    resend_of: UUID | None = field(
        "the failed instruction that it repeats, or null", source="resend_of_id"
    )
    rule: UUID | None = field("the standing instruction that sent it, or null", source="rule_id")
    holds: int | None = field("how often it kept its agent from stopping; null if it never does")
    acknowledged_by: dict[str, Any] | None = field(
        "the signal or call that acknowledged it, or null"
    )
    outcome: str | None = field("done, accepted, or declined; null before")
    note: str = field("the agent's note")
    deduplicated: bool = field(
        "true if the same text was already waiting",
        source=lambda row: row.get("deduplicated", False),
    )
    queued_at: datetime = field("when it was last queued")
    first_delivered_at: datetime | None = field("the first delivery, or null", AT)
    delivered_at: datetime | None = field("the last delivery, or null", AT)
    delivered_via: Way | None = field("the way of the last delivery, or null", "tool_call")
    delivered_session: str | None = field(
        "the agent's session that got it last; null if it is not known",
        "07d0bff0-1dd4-41b3-87cd-5fee1c553c0e",
        source="delivered_to",
    )
    delivered_call: int | None = field(
        "the number of the session's tool call that it came with, or null", 14
    )
    read_at: datetime | None = field(
        "the agent's first step after a delivery, or null if there was none yet", AT
    )
    acknowledged_at: datetime | None = field("when it was acknowledged, or null")
    failed_at: datetime | None = field("when it was given up, or null")
    cancelled_at: datetime | None = field("when it was canceled, or null")
    late_ack_at: datetime | None = field("when it was acknowledged too late, or null")
    updated_at: datetime = field("when it was last changed")
    late: bool = field(
        "true if this acknowledgment came after it failed or was canceled",
        source=lambda row: row.get("late", False),
    )


class PullIn(In, example={"limit": 10}):
    limit: StrictInt = Field(10, ge=1, le=MOST_ROWS, description="maximum number of instructions")
    via: Literal["pull", "heartbeat", "mcp", "cli"] = Field(
        "pull", description="the way by which the agent gets them, for their receipts"
    )


class PullOut(Shape):
    data: list[InstructionOut] = field("the instructions, in the order to follow them")
    retry_after_s: int = field(
        "seconds to wait before the next pull: 0 if more instructions wait; longer, the longer the "
        "agent has had no work",
        2,
    )


class AckIn(In, example={"outcome": "done", "note": "It is 1.4.2"}):
    outcome: Literal["done", "accepted", "declined"] = Field(
        "done", description="what the agent did with it"
    )
    note: str = Field("", max_length=NOTE_LENGTH, description="a note for the producer")


class AckManyIn(In, example={"ids": [ID]}):
    ids: list[UUID] = Field(
        min_length=1, max_length=MOST_ROWS, description="the instructions to acknowledge"
    )


class AckResult(Part):
    id: UUID = field("the instruction's id")
    status: Literal[200, 404] = field("200, or 404 if the agent has no such instruction", 200)
    instruction: InstructionOut | None = field(
        "the instruction; null if it is unknown",
        example_of(InstructionOut) | {"state": "acknowledged"},
    )


class AckManyOut(Shape):
    data: list[AckResult] = field("one result per id, in the request's order")


class SignalIn(In, example={"type": "fs_command", "data": {"command": "openspec", "found": True}}):
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


class SignalOut(Shape):
    acknowledged: list[UUID] = field(
        "the instructions that expected the signal, oldest first", [ID]
    )
    sent: list[UUID] = field(
        "the instructions that standing instructions sent because of the signal"
    )
