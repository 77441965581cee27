"""Schemas of webhooks and of channels for people."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from ninja import Schema
from pydantic import ConfigDict, Field, StrictBool, StrictInt

from ledger.schemas.shapes import AT, ID
from ledger.schemas.shared import In, Listed
from retries.models import Channel

ChannelStateName = Literal["active", "failing", "disabled"]
MOST_ROTATION_HOURS = 720
URL = "https://ops.example.com/hooks/tenfour"

CHANNEL: dict[str, Any] = {
    "id": ID,
    "name": "mirror",
    "service": "Webhook",
    "address": URL,
    "include_details": False,
    "state": "active",
    "disabled_because": None,
    "failing_since": None,
    "failures": 0,
    "last_error": None,
    "succeeded_at": AT,
    "created_by": {"type": "token", "name": "ops"},
    "created_at": AT,
    "updated_at": AT,
    "version": 1,
}
WEBHOOK: dict[str, Any] = CHANNEL | {"events": ["task.*", "escalation.opened"]}
PERSON_CHANNEL: dict[str, Any] = CHANNEL | {
    "name": "on-call",
    "service": "Email",
    "address": "mailtos://tenfour:****@smtp.example.com/oncall@example.com",
}
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw…"
EVENTS = "kinds of events to send, such as task.failed or task.*; empty for all"
DETAILS = "true to send titles and error texts too; they are untrusted and may hold secrets"


class WebhookIn(In):
    name: str = Field(description="a name for lists, unique in the project")
    url: str = Field(description="where to post: https://, and a public address")
    events: list[str] = Field(default_factory=list, description=EVENTS)
    include_details: StrictBool = Field(False, description=DETAILS)

    model_config = ConfigDict(
        json_schema_extra={"example": {"name": "mirror", "url": URL, "events": ["task.*"]}}
    )


class WebhookPatch(In):
    name: str | None = Field(None, description="a name for lists, unique in the project")
    url: str | None = Field(None, description="where to post: https://, and a public address")
    events: list[str] | None = Field(None, description=EVENTS)
    include_details: StrictBool | None = Field(None, description=DETAILS)

    model_config = ConfigDict(json_schema_extra={"example": {"events": ["escalation.*"]}})


class PersonChannelIn(In):
    name: str = Field(description="a name for lists, unique in the project")
    url: str = Field(
        description="an address as apprise writes it, such as mailtos://, slack:// or ntfys://"
    )
    include_details: StrictBool = Field(False, description=DETAILS)

    model_config = ConfigDict(
        json_schema_extra={"example": {"name": "on-call", "url": "ntfys://ntfy.sh/our-topic"}}
    )


class PersonChannelPatch(In):
    name: str | None = Field(None, description="a name for lists, unique in the project")
    url: str | None = Field(None, description="an address as apprise writes it")
    include_details: StrictBool | None = Field(None, description=DETAILS)

    model_config = ConfigDict(json_schema_extra={"example": {"include_details": True}})


class CreatedBy(Schema):
    type: str = Field(description="token or user")
    name: str = Field(description="its name")


class PersonChannelOut(Schema):
    id: UUID = Field(description="the channel's id")
    name: str = Field(description="the channel's name")
    service: str = Field(description="such as Webhook, Email or Slack")
    address: str = Field(
        description="the scheme, host and first path segment; the rest is never shown"
    )
    include_details: bool = Field(description="true if titles and error texts are sent")
    state: ChannelStateName = Field(description="active, failing, or disabled")
    disabled_because: str | None = Field(
        description="gone, gave_up, unreadable, or by_hand; null if it is not disabled"
    )
    failing_since: datetime | None = Field(description="since when its deliveries fail, or null")
    failures: int = Field(description="failed tries since the last success")
    last_error: str | None = Field(description="why the last failed try failed, or null")
    succeeded_at: datetime | None = Field(description="when a delivery last arrived, or null")
    created_by: CreatedBy = Field(description="who created it")
    created_at: datetime = Field(description="when it was created")
    updated_at: datetime = Field(description="when it was last changed")
    version: int = Field(description="the version, which If-Match names")

    model_config = ConfigDict(json_schema_extra={"example": PERSON_CHANNEL})


class WebhookOut(PersonChannelOut):
    events: list[str] = Field(description="kinds of events that it gets; empty for all")

    model_config = ConfigDict(json_schema_extra={"example": WEBHOOK})


class WebhookSecretOut(WebhookOut):
    secret: str = Field(description="signs the webhooks; it is not shown again")

    model_config = ConfigDict(json_schema_extra={"example": WEBHOOK | {"secret": SECRET}})


class WebhookList(Listed):
    data: list[WebhookOut] = Field(description="the rows of this page")

    model_config = ConfigDict(
        json_schema_extra={"example": {"data": [WEBHOOK], "next_cursor": None, "has_more": False}}
    )


class PersonChannelList(Listed):
    data: list[PersonChannelOut] = Field(description="the rows of this page")

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"data": [PERSON_CHANNEL], "next_cursor": None, "has_more": False}
        }
    )


class RotateSecretIn(In):
    overlap_hours: StrictInt = Field(
        24,
        ge=0,
        le=MOST_ROTATION_HOURS,
        description="how long the earlier secrets sign too",
    )

    model_config = ConfigDict(json_schema_extra={"example": {"overlap_hours": 24}})


class RangeIn(In):
    since: datetime = Field(description="deliveries that were created from then on")
    until: datetime = Field(description="and before then")
    undelivered_only: StrictBool = Field(
        True, description="false to send those again that have arrived"
    )

    model_config = ConfigDict(json_schema_extra={"example": {"since": AT, "until": AT}})


class RedeliveredOut(Schema):
    redelivered: int = Field(description="deliveries that are sent again, oldest first")

    model_config = ConfigDict(json_schema_extra={"example": {"redelivered": 17}})


def channel_out(channel: Channel) -> dict[str, Any]:
    """Return the JSON object for a channel for people; nothing in it is secret."""
    return {
        "id": channel.pk,
        "name": channel.name,
        "service": channel.service,
        "address": channel.shown_address,
        "include_details": channel.include_details,
        "state": channel.state,
        "disabled_because": channel.disabled_because or None,
        "failing_since": channel.failing_since,
        "failures": channel.failures,
        "last_error": (channel.last_error or None) if channel.failures else None,
        "succeeded_at": channel.succeeded_at,
        "created_by": {"type": channel.created_by_type, "name": channel.created_by_name},
        "created_at": channel.created_at,
        "updated_at": channel.updated_at,
        "version": channel.version,
    }


def webhook_out(channel: Channel) -> dict[str, Any]:
    return channel_out(channel) | {"events": channel.events}
