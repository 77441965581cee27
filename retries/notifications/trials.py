"""Send a test or an example to a channel and return the receiver's answer."""

from dataclasses import asdict, replace
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from django.utils import timezone

from ledger.journal import Stamp
from ledger.timestamps import format_timestamp
from retries.models import Channel, Delivery
from retries.models.notification_delivery import DeliveryRole, DeliveryState
from retries.notifications import recording, sending
from retries.notifications.http_post import Answer
from retries.notifications.messages import Message, word_test
from retries.notifications.webhook_bodies import traceparent_of


def send_test(channel: Channel, *, stamp: Stamp) -> tuple[Delivery, Answer]:
    """Send a test now and return its delivery and the answer; it is tried once."""
    url = f"{settings.LINK_URL}/settings/notifications/"
    project = channel.project.name if channel.project else "all projects"
    message = word_test(project=project, sent_by=stamp.actor.name, url=url)
    body = asdict(message)
    if channel.is_webhook:
        body = {
            "type": "test",
            "timestamp": format_timestamp(stamp.at),
            "data": {"text": message.subject, "project": project, "url": url},
        }
    return send_once(channel, body, title=message.subject, stamp=stamp)


def send_example(channel: Channel, message: Message, *, stamp: Stamp) -> tuple[Delivery, Answer]:
    """Send what a message of a rule looks like, marked as an example; it is tried once."""
    head = f"Example: {message.head or message.subject}"
    marked = replace(message, subject=f"Example: {message.subject}", head=head)
    return send_once(channel, asdict(marked), title=marked.subject, stamp=stamp)


def send_once(
    channel: Channel, body: dict[str, Any], *, title: str, stamp: Stamp
) -> tuple[Delivery, Answer]:
    """Send a body now, whatever comes of it, and return its delivery and the answer."""
    id = uuid4()
    delivery = Delivery.objects.create(
        channel=channel,
        project_id=channel.project_id,
        message_id=f"test-{id}",
        kind="test",
        role=DeliveryRole.TEST,
        title=title[:200],
        body=body,
        traceparent=traceparent_of(UUID(str(id))),
        state=DeliveryState.PENDING,
        # this process sends it; another does if this one dies
        next_try_at=timezone.now() + sending.TURN,
        created_at=stamp.at,
    )
    answer = sending.try_once(channel, delivery)
    recording.record_try(delivery, channel, answer, now=timezone.now())
    delivery.refresh_from_db()
    return delivery, answer
