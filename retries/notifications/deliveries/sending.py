"""Send the deliveries that are due: one process for each channel, with every try recorded.

A process that dies leaves its deliveries due. Its turn ends after `TURN`, and another process
sends them again with the same id.
"""

import json
import threading
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from django.db.models import Q

from ledger.database import server_time
from ledger.secrets.encryption import Unreadable
from retries.models import Channel, Delivery
from retries.models.notification_channel import ChannelQuerySet, ChannelState
from retries.models.notification_delivery import UNSETTLED, DeliveryRole
from retries.notifications import channels, signatures
from retries.notifications.addresses import http_post
from retries.notifications.addresses.http_post import Answer
from retries.notifications.deliveries import recording
from retries.notifications.messages.wording import read_message
from retries.notifications.services import person_services

TURN = timedelta(seconds=30)
# A run ends after this time, so that a channel with much to send leaves room for others.
RUN = timedelta(seconds=45)
# Threads of the worker that may wait for receivers at a time; sweeps need the others.
SLOTS = 2
READ_AT_ONCE = 20
REPLIES = (DeliveryRole.REMINDER, DeliveryRole.UPDATE)
slots = threading.BoundedSemaphore(SLOTS)


def due_channels(now: datetime) -> list[UUID]:
    due = Delivery.objects.filter(state__in=UNSETTLED, next_try_at__lte=now)
    found = free_channels(now).filter(pk__in=due.order_by().values("channel").distinct())
    return list(found.values_list("pk", flat=True))


def free_channels(now: datetime) -> ChannelQuerySet:
    free = Channel.objects.on().filter(Q(sending_until=None) | Q(sending_until__lt=now))
    return free.filter(Q(resume_at=None) | Q(resume_at__lte=now))


def send_to_channel(channel_id: UUID) -> bool:
    """Send what is due to a channel, unless another process does; return whether more is due."""
    if not slots.acquire(blocking=False):
        return False  # the next tick tries again
    try:
        run = take_turn(channel_id)
        if run is None:
            return False
        try:
            return send_for(channel_id, run)
        finally:
            end_turn(channel_id, run)
    finally:
        slots.release()


def take_turn(channel_id: UUID) -> UUID | None:
    """Begin to send to a channel; return the run, or None if another process sends."""
    now, run = server_time.now(), uuid4()
    row = free_channels(now).filter(pk=channel_id)
    taken = row.update(sending_until=now + TURN, sender=run)
    return run if taken else None


def renew_turn(channel_id: UUID, run: UUID) -> bool:
    """Extend a turn before a try; return False if it was lost to another process."""
    own = Channel.objects.filter(pk=channel_id, sender=run)
    return bool(own.update(sending_until=server_time.now() + TURN))


def end_turn(channel_id: UUID, run: UUID) -> None:
    Channel.objects.filter(pk=channel_id, sender=run).update(sending_until=None, sender=None)


def send_for(channel_id: UUID, run: UUID) -> bool:
    """Send until nothing is due, a try fails, or time is up; return whether more is due."""
    ends = server_time.now() + RUN
    while True:
        found = (
            Delivery.objects.filter(channel=channel_id, state__in=UNSETTLED)
            .filter(next_try_at__lte=server_time.now())
            .order_by("next_try_at", "id")[:READ_AT_ONCE]
        )
        batch = list(found)
        for delivery in batch:
            if not renew_turn(channel_id, run):
                return False
            channel = Channel.objects.get(pk=channel_id)
            if channel.state == ChannelState.DISABLED:
                return False
            answer = try_once(channel, delivery)
            recording.record_try(delivery, channel, answer, now=server_time.now())
            if not answer.succeeded or server_time.now() > ends:
                return True
        if len(batch) < READ_AT_ONCE:
            return False


def try_once(channel: Channel, delivery: Delivery) -> Answer:
    try:
        url = channels.address_of(channel)
        if channel.is_webhook:
            return post_webhook(channel, delivery, url)
        message, root = read_message(delivery.body), find_root(delivery)
        return person_services.send(url, message, root=root, taken=delivery.receipt)
    except Unreadable as error:
        return Answer(None, error=str(error))


def find_root(delivery: Delivery) -> str:
    """Return the receipt of the message that a reply belongs to; empty if there is none."""
    if delivery.thread_id is None or delivery.role not in REPLIES:
        return ""
    firsts = Delivery.objects.filter(
        thread=delivery.thread_id,
        channel=delivery.channel_id,
        role__in=(DeliveryRole.NEW, DeliveryRole.SECOND),
        id__lt=delivery.pk,
        delivered_at__isnull=False,  # a failed try may have a receipt of some places
    )
    return firsts.order_by("-id").values_list("receipt", flat=True).first() or ""


def post_webhook(channel: Channel, delivery: Delivery, url: str) -> Answer:
    # Each try is signed with its own time, by every secret that is valid.
    now = server_time.now()
    body = json.dumps(delivery.body, separators=(",", ":")).encode()
    signed = signatures.headers_of(
        body,
        message_id=delivery.message_id,
        timestamp=int(now.timestamp()),
        signing_secrets=channels.signing_secrets_of(channel, now=now),
    )
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Tenfour-Webhooks/1",
        "traceparent": delivery.traceparent,
        **signed,
    }
    return http_post.post(url, body, headers)
