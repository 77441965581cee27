"""Send a test or an example to a channel and return the receiver's answer."""

from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from django.db import transaction

from ledger.database import server_time
from ledger.errors import RateLimited
from ledger.journal import Stamp
from ledger.values.timestamps import format_timestamp
from retries.models import Channel, Delivery
from retries.models.notification_delivery import DeliveryRole, DeliveryState
from retries.notifications import channels
from retries.notifications.addresses.http_post import Answer
from retries.notifications.deliveries import recording, sending
from retries.notifications.messages.webhook_bodies import traceparent_of
from retries.notifications.messages.wording import Message, word_test

NO_PAUSE = timedelta(0)


def send_test(
    channel: Channel, *, pause: timedelta = NO_PAUSE, stamp: Stamp
) -> tuple[Delivery, Answer]:
    """Send a test now, with one try; return its delivery and the answer.

    Raises RateLimited if the channel got a test or an example within `pause`.
    """
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
    return send_once(channel, body, title=message.subject, pause=pause, stamp=stamp)


def send_example(
    channel: Channel, message: Message, *, pause: timedelta = NO_PAUSE, stamp: Stamp
) -> tuple[Delivery, Answer]:
    """Send an example of a rule's message, marked as one, with one try.

    Raises RateLimited if the channel got a test or an example within `pause`.
    """
    subject, text = f"Example: {message.subject}", f"Example: {message.text}"
    marked = replace(message, subject=subject, text=text)
    return send_once(channel, asdict(marked), title=marked.subject, pause=pause, stamp=stamp)


def send_once(
    channel: Channel, body: dict[str, Any], *, title: str, pause: timedelta, stamp: Stamp
) -> tuple[Delivery, Answer]:
    with transaction.atomic():
        if pause:
            refuse_repeated(channel, pause, stamp)
        delivery = insert_delivery(channel, body, title=title, stamp=stamp)
    answer = sending.try_once(channel, delivery)
    recording.record_try(delivery, channel, answer, now=server_time.now())
    delivery.refresh_from_db()
    return delivery, answer


def refuse_repeated(channel: Channel, pause: timedelta, stamp: Stamp) -> None:
    # One after the other, so that of two clicks at once only one sends.
    channels.lock_channel(channel.pk)
    rows = Delivery.objects.filter(channel=channel, role=DeliveryRole.TEST)
    if rows.filter(created_at__gt=stamp.at - pause).exists():
        seconds = round(pause.total_seconds())
        raise RateLimited(
            f"One test or example per channel and {seconds} s. Nothing was sent.",
            retry_after_s=seconds,
        )


def insert_delivery(
    channel: Channel, body: dict[str, Any], *, title: str, stamp: Stamp
) -> Delivery:
    id = uuid4()
    return Delivery.objects.create(
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
        next_try_at=server_time.now() + sending.TURN,
        created_at=stamp.at,
    )
