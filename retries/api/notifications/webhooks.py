"""Webhooks and channels for people over HTTP.

No operation takes an Idempotency-Key: a stored response would keep the signing secret.
"""

from typing import Any
from uuid import UUID

from django.http import HttpResponse
from ninja import Body, Query, Router

from ledger.api.auth import PrincipalAuth, PrincipalRequest, stamp_of
from ledger.api.parameters import parse_if_match
from ledger.api.reading import find_visible, list_response
from ledger.api.responses import json_response
from ledger.database import server_time
from ledger.errors import Invalid
from ledger.models import Project
from ledger.schemas.shared import ListQuery, page_of
from retries.models import Channel
from retries.models.notification_channel import ChannelKind, ChannelQuerySet, DisabledBecause
from retries.notifications import channels
from retries.notifications.channels import ChannelSpec
from retries.notifications.deliveries import redelivery, trials
from retries.schemas import channels as schemas
from retries.schemas.channels import PersonChannelOut, WebhookOut, WebhookSecretOut
from retries.schemas.deliveries import DeliveryOut

router = Router(tags=["notifications"])
WRITE = "webhooks:write"
WEBHOOK, PERSON = ChannelKind.WEBHOOK, ChannelKind.PERSON


# ---- webhooks


@router.get("/webhooks", auth=PrincipalAuth(WRITE), response=page_of(schemas.WebhookOut))
def webhooks_list(request: PrincipalRequest, query: Query[ListQuery]) -> HttpResponse:
    """List the project's webhooks, newest first; their secrets are never shown."""
    return list_channels(request, query, WEBHOOK)


@router.post("/webhooks", auth=PrincipalAuth(WRITE), response={201: schemas.WebhookSecretOut})
def webhooks_create(request: PrincipalRequest, body: schemas.WebhookIn) -> HttpResponse:
    """Create a webhook; the response contains its signing secret, which is shown only once.

    Tenfour posts each event of the project that `events` selects, signed as Standard Webhooks.
    """
    spec = ChannelSpec(
        kind=WEBHOOK,
        name=body.name,
        url=body.url,
        events=tuple(body.events),
        include_details=body.include_details,
    )
    made = channels.create_channel(spec, project=project_of(request), stamp=stamp_of(request))
    body_out = WebhookSecretOut.write(made.channel, secret=made.secret)
    return json_response(body_out, 201, version=made.channel.version)


@router.get("/webhooks/{id}", auth=PrincipalAuth(WRITE), response=schemas.WebhookOut)
def webhooks_get(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Get a webhook, without its secret."""
    return channel_response(find_channel(request, id, WEBHOOK))


@router.patch("/webhooks/{id}", auth=PrincipalAuth(WRITE), response=schemas.WebhookOut)
def webhooks_update(
    request: PrincipalRequest, id: UUID, body: schemas.WebhookPatch
) -> HttpResponse:
    """Change a webhook; a new URL is checked like that of a new webhook.

    The `If-Match` header must contain the ETag of the version you read.
    """
    return update_channel(request, id, WEBHOOK, body.model_dump(exclude_unset=True))


@router.delete("/webhooks/{id}", auth=PrincipalAuth(WRITE), response=schemas.WebhookOut)
def webhooks_delete(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Delete a webhook with its deliveries."""
    return delete_channel(request, id, WEBHOOK)


@router.post("/webhooks/{id}/test", auth=PrincipalAuth(WRITE), response=DeliveryOut)
def webhooks_test(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Send a test event now and return how the receiver answered; it is tried once."""
    return try_channel(request, id, WEBHOOK)


@router.post("/webhooks/{id}/enable", auth=PrincipalAuth(WRITE), response=schemas.WebhookOut)
def webhooks_enable(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Enable a webhook; it gets new events, and earlier ones by redelivery."""
    return enable_channel(request, id, WEBHOOK)


@router.post("/webhooks/{id}/disable", auth=PrincipalAuth(WRITE), response=schemas.WebhookOut)
def webhooks_disable(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Disable a webhook; what waits for it is not sent."""
    return disable_channel(request, id, WEBHOOK)


@router.post(
    "/webhooks/{id}/rotate", auth=PrincipalAuth(WRITE), response={201: schemas.WebhookSecretOut}
)
def webhooks_rotate(
    request: PrincipalRequest, id: UUID, body: Body[schemas.RotateSecretIn | None] = None
) -> HttpResponse:
    """Give a webhook a new signing secret, which is shown only once.

    For `overlap_hours` the earlier secrets sign too, so that the receiver can change over.
    """
    options = body or schemas.RotateSecretIn.model_validate({})
    channel, secret = channels.rotate_secret(
        find_channel(request, id, WEBHOOK).pk, hours=options.overlap_hours, stamp=stamp_of(request)
    )
    body_out = WebhookSecretOut.write(channel, secret=secret)
    return json_response(body_out, 201, version=channel.version)


@router.post("/webhooks/{id}/redeliver", auth=PrincipalAuth(WRITE), response=schemas.RedeliveredOut)
def webhooks_redeliver(request: PrincipalRequest, id: UUID, body: schemas.RangeIn) -> HttpResponse:
    """Send the deliveries of a time range again, oldest first, each with the same `webhook-id`."""
    return redeliver_range(request, id, WEBHOOK, body)


# ---- channels for people


@router.get(
    "/notification-channels", auth=PrincipalAuth(WRITE), response=page_of(schemas.PersonChannelOut)
)
def notification_channels_list(request: PrincipalRequest, query: Query[ListQuery]) -> HttpResponse:
    """List the project's channels for people, newest first."""
    return list_channels(request, query, PERSON)


@router.post(
    "/notification-channels", auth=PrincipalAuth(WRITE), response={201: schemas.PersonChannelOut}
)
def notification_channels_create(
    request: PrincipalRequest, body: schemas.PersonChannelIn
) -> HttpResponse:
    """Create a channel that reaches a person: by mail, Slack, ntfy, or another service.

    The first channel of a project brings default rules, which notification-rules lists.
    """
    spec = ChannelSpec(
        kind=PERSON,
        name=body.name,
        url=body.url,
        include_details=body.include_details,
        digest=body.digest,
        digest_hour=body.digest_hour,
        digest_timezone=body.digest_timezone,
    )
    made = channels.create_channel(spec, project=project_of(request), stamp=stamp_of(request))
    return json_response(PersonChannelOut.write(made.channel), 201, version=made.channel.version)


@router.get(
    "/notification-channels/{id}", auth=PrincipalAuth(WRITE), response=schemas.PersonChannelOut
)
def notification_channels_get(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Get a channel for people, without the secrets of its address."""
    return channel_response(find_channel(request, id, PERSON))


@router.patch(
    "/notification-channels/{id}", auth=PrincipalAuth(WRITE), response=schemas.PersonChannelOut
)
def notification_channels_update(
    request: PrincipalRequest, id: UUID, body: schemas.PersonChannelPatch
) -> HttpResponse:
    """Change a channel for people.

    The `If-Match` header must contain the ETag of the version you read.
    """
    return update_channel(request, id, PERSON, body.model_dump(exclude_unset=True))


@router.delete(
    "/notification-channels/{id}", auth=PrincipalAuth(WRITE), response=schemas.PersonChannelOut
)
def notification_channels_delete(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Delete a channel for people with its rules and deliveries."""
    return delete_channel(request, id, PERSON)


@router.post("/notification-channels/{id}/test", auth=PrincipalAuth(WRITE), response=DeliveryOut)
def notification_channels_test(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Send a test message now and return how the service answered; it is tried once."""
    return try_channel(request, id, PERSON)


@router.post(
    "/notification-channels/{id}/enable",
    auth=PrincipalAuth(WRITE),
    response=schemas.PersonChannelOut,
)
def notification_channels_enable(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Enable a channel for people."""
    return enable_channel(request, id, PERSON)


@router.post(
    "/notification-channels/{id}/disable",
    auth=PrincipalAuth(WRITE),
    response=schemas.PersonChannelOut,
)
def notification_channels_disable(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Disable a channel for people; what waits for it is not sent."""
    return disable_channel(request, id, PERSON)


# ---- what both kinds share


def project_of(request: PrincipalRequest) -> Project:
    return Project.objects.get(pk=request.auth.project_id)


def visible(request: PrincipalRequest, kind: ChannelKind) -> ChannelQuerySet:
    return Channel.objects.visible_to(request.auth).filter(kind=kind)


def find_channel(request: PrincipalRequest, id: UUID, kind: ChannelKind) -> Channel:
    noun = "webhook" if kind == WEBHOOK else "notification channel"
    return find_visible(visible(request, kind).select_related("project"), noun, id)


def object_of(channel: Channel) -> dict[str, Any]:
    shape = WebhookOut if channel.is_webhook else PersonChannelOut
    return shape.write(channel)


def channel_response(channel: Channel) -> HttpResponse:
    return json_response(object_of(channel), version=channel.version)


def list_channels(request: PrincipalRequest, query: ListQuery, kind: ChannelKind) -> HttpResponse:
    shape = WebhookOut if kind == WEBHOOK else PersonChannelOut
    return list_response(visible(request, kind), query, shape, kind=kind)


def update_channel(
    request: PrincipalRequest, id: UUID, kind: ChannelKind, sent: dict[str, Any]
) -> HttpResponse:
    if empty := [name for name, value in sent.items() if value is None]:
        raise Invalid(f"/{empty[0]}", "The value must not be null; leave it out to keep it.")
    channel = channels.update_channel(
        find_channel(request, id, kind).pk,
        version=parse_if_match(request),
        stamp=stamp_of(request),
        **sent,
    )
    return channel_response(channel)


def delete_channel(request: PrincipalRequest, id: UUID, kind: ChannelKind) -> HttpResponse:
    channel = find_channel(request, id, kind)
    channels.delete_channel(channel.pk, stamp=stamp_of(request))
    return json_response(object_of(channel))


def try_channel(request: PrincipalRequest, id: UUID, kind: ChannelKind) -> HttpResponse:
    delivery, _ = trials.send_test(find_channel(request, id, kind), stamp=stamp_of(request))
    return json_response(DeliveryOut.write(delivery))


def enable_channel(request: PrincipalRequest, id: UUID, kind: ChannelKind) -> HttpResponse:
    found = find_channel(request, id, kind)
    return channel_response(channels.enable_channel(found.pk, stamp=stamp_of(request)))


def disable_channel(request: PrincipalRequest, id: UUID, kind: ChannelKind) -> HttpResponse:
    found = find_channel(request, id, kind)
    channels.disable_channel(found.pk, DisabledBecause.BY_HAND, stamp=stamp_of(request))
    return channel_response(find_channel(request, id, kind))


def redeliver_range(
    request: PrincipalRequest, id: UUID, kind: ChannelKind, body: schemas.RangeIn
) -> HttpResponse:
    if body.since.tzinfo is None or body.until.tzinfo is None or body.until <= body.since:
        raise Invalid("/until", "since and until must have a time zone, and until must be later.")
    channel = find_channel(request, id, kind)
    rows = redelivery.in_range(
        channel, since=body.since, until=body.until, undelivered_only=body.undelivered_only
    )
    count = redelivery.redeliver_range(channel, rows, now=server_time.now())
    return json_response({"redelivered": count})
