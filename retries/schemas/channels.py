"""Schemas of webhooks and of channels for people."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import Field, StrictBool, StrictInt

from ledger.schemas.shapes import AT, Part, Shape, field
from ledger.schemas.shared import In

ChannelStateName = Literal["active", "failing", "disabled"]
MOST_ROTATION_HOURS = 720
URL = "https://ops.example.com/hooks/tenfour"

EVENTS = "kinds of events to send, such as task.failed or task.*; empty for all"
DETAILS = "true to send titles and error texts too; they are untrusted and may hold secrets"


class WebhookIn(In, example={"name": "mirror", "url": URL, "events": ["task.*"]}):
    name: str = Field(description="a name for lists, unique in the project")
    url: str = Field(description="where to post: https://, and a public address")
    events: list[str] = Field(default_factory=list, description=EVENTS)
    include_details: StrictBool = Field(False, description=DETAILS)


class WebhookPatch(In, example={"events": ["escalation.*"]}):
    name: str | None = Field(None, description="a name for lists, unique in the project")
    url: str | None = Field(None, description="where to post: https://, and a public address")
    events: list[str] | None = Field(None, description=EVENTS)
    include_details: StrictBool | None = Field(None, description=DETAILS)


DigestName = Literal["off", "daily", "weekly"]
DIGEST = "how often it gets a digest: off, daily, or weekly (on Mondays)"
HOUR = "the hour of the day at which the digest is due"
ZONE = "the hour's time zone, unless the channel's person has chosen one"


class PersonChannelIn(In, example={"name": "on-call", "url": "ntfys://ntfy.sh/our-topic"}):
    name: str = Field(description="a name for lists, unique in the project")
    url: str = Field(
        description="an address as apprise writes it, such as mailtos://, slack:// or ntfys://"
    )
    include_details: StrictBool = Field(False, description=DETAILS)
    digest: DigestName = Field("off", description=DIGEST)
    digest_hour: StrictInt = Field(8, ge=0, le=23, description=HOUR)
    digest_timezone: str = Field("UTC", max_length=64, description=ZONE)


class PersonChannelPatch(In, example={"include_details": True}):
    name: str | None = Field(None, description="a name for lists, unique in the project")
    url: str | None = Field(None, description="an address as apprise writes it")
    include_details: StrictBool | None = Field(None, description=DETAILS)
    digest: DigestName | None = Field(None, description=DIGEST)
    digest_hour: StrictInt | None = Field(None, ge=0, le=23, description=HOUR)
    digest_timezone: str | None = Field(None, max_length=64, description=ZONE)


class CreatedBy(Part):
    type: str = field("token or user", "token", source="created_by_type")
    name: str = field("its name", "ops", source="created_by_name")


class ChannelOut(Shape):
    id: UUID = field("the channel's id", source="pk")
    name: str = field("the channel's name", "on-call")
    service: str = field("such as Webhook, Email or Slack", "Email")
    address: str = field(
        "the scheme, host and first path segment; the rest is never shown",
        "mailtos://tenfour:****@smtp.example.com/oncall@example.com",
        source="shown_address",
    )
    include_details: bool = field("true if titles and error texts are sent")
    state: ChannelStateName = field("active, failing, or disabled", "active")
    disabled_because: str | None = field(
        "gone, gave_up, unreadable, or by_hand; null if it is not disabled", empty_is_null=True
    )
    failing_since: datetime | None = field("since when its deliveries fail, or null")
    failures: int = field("failed tries since the last success")
    last_error: str | None = field(
        "why the last failed try failed, or null",
        source=lambda row: row.last_error or None if row.failures else None,
    )
    succeeded_at: datetime | None = field("when a delivery last arrived, or null", AT)
    created_by: CreatedBy = field("who created it", source=".")
    created_at: datetime = field("when it was created")
    updated_at: datetime = field("when it was last changed")
    version: int = field("the version, which If-Match names", 1)


class PersonChannelOut(ChannelOut):
    digest: DigestName = field(DIGEST, "daily")
    digest_hour: int = field(HOUR, 8)
    digest_timezone: str = field(ZONE, "Europe/Berlin")
    digest_due_at: datetime | None = field("when the next digest is due, or null", AT)


class WebhookOut(ChannelOut, example={"name": "mirror", "service": "Webhook", "address": URL}):
    events: list[str] = field(
        "kinds of events that it gets; empty for all", ["task.*", "escalation.opened"]
    )


class WebhookSecretOut(WebhookOut):
    secret: str = field(
        "signs the webhooks; it is not shown again",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw…",
        given=True,
    )


class RotateSecretIn(In, example={"overlap_hours": 24}):
    overlap_hours: StrictInt = Field(
        24, ge=0, le=MOST_ROTATION_HOURS, description="how long the earlier secrets sign too"
    )


class RangeIn(In, example={"since": AT, "until": AT}):
    since: datetime = Field(description="deliveries that were created from then on")
    until: datetime = Field(description="and before then")
    undelivered_only: StrictBool = Field(
        True, description="false to send those again that have arrived"
    )


class RedeliveredOut(Shape):
    redelivered: int = field("deliveries that are sent again, oldest first", 17)
