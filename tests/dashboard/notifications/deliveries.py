"""Channels and deliveries as the pages show them."""

from datetime import datetime, timedelta
from typing import Any

from ledger.models import Project
from retries.models import Channel, Delivery, DeliveryTry, NotificationRule
from retries.models.notification_channel import ChannelKind
from retries.models.notification_delivery import UNSETTLED, DeliveryRole, DeliveryState


def make_channel(
    name: str = "Ledger mirror",
    *,
    project: Project | None = None,
    kind: str = ChannelKind.WEBHOOK.value,
    service: str = "Webhook",
    now: datetime,
    **more: Any,
) -> Channel:
    return Channel.objects.create(
        **{"shown_address": "https://ops.example.com/hooks"} | more,
        project=project,
        kind=kind,
        name=name,
        service=service,
        address="",
        enabled_at=now,
        created_by_type="user",
        created_by_name="mara",
        created_at=now,
        updated_at=now,
    )


def make_delivery(
    channel: Channel,
    state: str = DeliveryState.DELIVERED,
    *,
    codes: tuple[int | None, ...] = (200,),
    now: datetime,
    **more: Any,
) -> Delivery:
    """Insert a delivery with one try for each code; None is no answer."""
    values: dict[str, Any] = {
        "kind": "escalation.opened",
        "role": DeliveryRole.EVENT.value,
        "title": "Store rendered invoices in object storage",
        "body": {"type": "escalation.opened", "data": {"n": 1}},
        "response": "ok",
        "project": channel.project,
    } | more
    bad = state != DeliveryState.DELIVERED
    row = Delivery.objects.create(
        **values,
        channel=channel,
        message_id=f"evt-{Delivery.objects.count()}",
        state=state,
        tries=len(codes),
        next_try_at=now + timedelta(minutes=5) if state in UNSETTLED else None,
        first_try_at=now if codes else None,
        code=codes[-1] if codes else None,
        latency_ms=214 if codes else None,
        created_at=now,
    )
    for number, code in enumerate(codes, start=1):
        error = f"{code} Service Unavailable" if code else "no answer within 15 s"
        DeliveryTry.objects.create(
            delivery=row,
            number=number,
            at=now + timedelta(seconds=5 * number),
            latency_ms=1900,
            code=code,
            error=error if bad else "",
        )
    return row


def make_notification_rule(channel: Channel, *, now: datetime, **more: Any) -> NotificationRule:
    values: dict[str, Any] = {"conditions": ["escalation"], "project": channel.project}
    return NotificationRule.objects.create(
        **values | more,
        channel=channel,
        enabled_at=now,
        changed_by_name="dana",
        created_by_type="user",
        created_by_name="mara",
        created_at=now,
        updated_at=now,
    )
