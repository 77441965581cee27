"""Schemas of deliveries."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field

from ledger.schemas.shapes import AT, ID, Part, Shape, field
from ledger.schemas.shared import STATES, PageQuery

DeliveryStateName = Literal[
    "pending", "retrying", "delivered", "gave_up", "not_sent", "held", "summarized"
]
Role = Literal["event", "new", "reminder", "update", "second", "summary", "test"]


class DeliveryQuery(PageQuery):
    channel: str = Field("", max_length=36, description="a channel's id")
    state: str = Field("", description=STATES)
    kind: str = Field("", max_length=40, description="a kind of event, summary, or test")


class DeliverySubject(Part):
    type: str = field("such as task or escalation", "task", source="subject_type")
    id: UUID = field("its id", source="subject_id")


class TryOut(Shape):
    number: int = field("1 for the first try", 1)
    at: datetime = field("when it ended")
    latency_ms: int = field("how long it took", 1932)
    code: int | None = field("the answer's status; null without an answer", 503)
    error: str | None = field("why it failed, or null", "HTTP 503", empty_is_null=True)
    response: str | None = field(
        "the first 1 KiB of the answer, or null",
        "Service Temporarily Unavailable",
        empty_is_null=True,
    )


class DeliveryOut(Shape):
    id: UUID = field("the delivery's id", source="pk")
    channel_id: UUID = field("the channel's id")
    channel: str = field("the channel's name", "mirror", source="channel.name")
    rule_id: UUID | None = field("the rule that caused it; null for a webhook")
    message_id: str = field("`webhook-id`: the same at every try", f"evt-{ID}")
    kind: str = field("the event's kind, summary, or test", "task.failed")
    role: Role = field("what it is in its thread; event for a webhook", "event")
    event_id: UUID | None = field("the event's id, or null", ID)
    subject: DeliverySubject | None = field(
        "what the event is about, or null", source=lambda row: row if row.subject_id else None
    )
    state: DeliveryStateName = field(
        "held waits for a summary; not_sent: its channel was disabled", "retrying"
    )
    tries: int = field("number of tries", 1)
    next_try_at: datetime | None = field("when the next try is due, or null", AT)
    first_try_at: datetime | None = field("when it was first tried, or null", AT)
    delivered_at: datetime | None = field("when it arrived, or null")
    latency_ms: int | None = field("how long the last try took, or null", 1932)
    code: int | None = field("the last answer's status; null without an answer", 503)
    error: str | None = field("why the last try failed, or null", "HTTP 503", empty_is_null=True)
    response: str | None = field(
        "the first 1 KiB of the last answer, or null",
        "Service Temporarily Unavailable",
        empty_is_null=True,
    )
    created_at: datetime = field("when it was written")


class DeliveryDetailOut(DeliveryOut):
    body: dict[str, Any] = field(
        "what is sent", {"type": "task.failed", "timestamp": AT, "data": {}}
    )
    each_try: list[TryOut] = field(
        "every try, oldest first", source=lambda row: row.each_try.order_by("number")
    )
