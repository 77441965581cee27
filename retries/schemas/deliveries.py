"""Schemas of deliveries."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from ninja import Schema
from pydantic import ConfigDict, Field

from ledger.schemas.shapes import AT, ID
from ledger.schemas.shared import STATES, Listed, PageQuery
from retries.models import Delivery, DeliveryTry

DeliveryStateName = Literal[
    "pending", "retrying", "delivered", "gave_up", "not_sent", "held", "summarized"
]
Role = Literal["event", "new", "reminder", "update", "second", "summary", "test"]
DELIVERY: dict[str, Any] = {
    "id": ID,
    "channel_id": ID,
    "channel": "mirror",
    "rule_id": None,
    "message_id": f"evt-{ID}",
    "kind": "task.failed",
    "role": "event",
    "event_id": ID,
    "subject": {"type": "task", "id": ID},
    "state": "retrying",
    "tries": 1,
    "next_try_at": AT,
    "first_try_at": AT,
    "delivered_at": None,
    "latency_ms": 1932,
    "code": 503,
    "error": "HTTP 503",
    "response": "Service Temporarily Unavailable",
    "created_at": AT,
}
TRY: dict[str, Any] = {
    "number": 1,
    "at": AT,
    "latency_ms": 1932,
    "code": 503,
    "error": "HTTP 503",
    "response": "Service Temporarily Unavailable",
}


class DeliveryQuery(PageQuery):
    channel: str = Field("", max_length=36, description="a channel's id")
    state: str = Field("", description=STATES)
    kind: str = Field("", max_length=40, description="a kind of event, summary, or test")


class DeliverySubject(Schema):
    type: str = Field(description="such as task or escalation")
    id: UUID = Field(description="its id")


class TryOut(Schema):
    number: int = Field(description="1 for the first try")
    at: datetime = Field(description="when it ended")
    latency_ms: int = Field(description="how long it took")
    code: int | None = Field(description="the answer's status; null without an answer")
    error: str | None = Field(description="why it failed, or null")
    response: str | None = Field(description="the first 1 KiB of the answer, or null")

    model_config = ConfigDict(json_schema_extra={"example": TRY})


class DeliveryOut(Schema):
    id: UUID = Field(description="the delivery's id")
    channel_id: UUID = Field(description="the channel's id")
    channel: str = Field(description="the channel's name")
    rule_id: UUID | None = Field(description="the rule that caused it; null for a webhook")
    message_id: str = Field(description="`webhook-id`: the same at every try")
    kind: str = Field(description="the event's kind, summary, or test")
    role: Role = Field(description="what it is in its thread; event for a webhook")
    event_id: UUID | None = Field(description="the event's id, or null")
    subject: DeliverySubject | None = Field(description="what the event is about, or null")
    state: DeliveryStateName = Field(
        description="held waits for a summary; not_sent: its channel was disabled"
    )
    tries: int = Field(description="number of tries")
    next_try_at: datetime | None = Field(description="when the next try is due, or null")
    first_try_at: datetime | None = Field(description="when it was first tried, or null")
    delivered_at: datetime | None = Field(description="when it arrived, or null")
    latency_ms: int | None = Field(description="how long the last try took, or null")
    code: int | None = Field(description="the last answer's status; null without an answer")
    error: str | None = Field(description="why the last try failed, or null")
    response: str | None = Field(description="the first 1 KiB of the last answer, or null")
    created_at: datetime = Field(description="when it was written")

    model_config = ConfigDict(json_schema_extra={"example": DELIVERY})


class DeliveryDetailOut(DeliveryOut):
    body: dict[str, Any] = Field(description="what is sent")
    each_try: list[TryOut] = Field(description="every try, oldest first")

    model_config = ConfigDict(
        json_schema_extra={
            "example": DELIVERY
            | {"body": {"type": "task.failed", "timestamp": AT, "data": {}}, "each_try": [TRY]}
        }
    )


class DeliveryList(Listed):
    data: list[DeliveryOut] = Field(description="the rows of this page")

    model_config = ConfigDict(
        json_schema_extra={"example": {"data": [DELIVERY], "next_cursor": None, "has_more": False}}
    )


def delivery_out(delivery: Delivery) -> dict[str, Any]:
    """Return the JSON object for a delivery whose channel is loaded."""
    subject = None
    if delivery.subject_id:
        subject = {"type": delivery.subject_type, "id": delivery.subject_id}
    return {
        "id": delivery.pk,
        "channel_id": delivery.channel_id,
        "channel": delivery.channel.name,
        "rule_id": delivery.rule_id,
        "message_id": delivery.message_id,
        "kind": delivery.kind,
        "role": delivery.role,
        "event_id": delivery.event_id,
        "subject": subject,
        "state": delivery.state,
        "tries": delivery.tries,
        "next_try_at": delivery.next_try_at,
        "first_try_at": delivery.first_try_at,
        "delivered_at": delivery.delivered_at,
        "latency_ms": delivery.latency_ms,
        "code": delivery.code,
        "error": delivery.error or None,
        "response": delivery.response or None,
        "created_at": delivery.created_at,
    }


def detail_out(delivery: Delivery) -> dict[str, Any]:
    tries = delivery.each_try.order_by("number")
    return delivery_out(delivery) | {
        "body": delivery.body,
        "each_try": [try_out(each) for each in tries],
    }


def try_out(each: DeliveryTry) -> dict[str, Any]:
    return {
        "number": each.number,
        "at": each.at,
        "latency_ms": each.latency_ms,
        "code": each.code,
        "error": each.error or None,
        "response": each.response or None,
    }
