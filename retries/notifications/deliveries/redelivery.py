"""Send deliveries again, with the same id, so that a receiver can tell that it has seen them."""

from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Case, F, Q, Value, When

from ledger.errors import InvalidTransition
from retries.models import Channel, Delivery
from retries.models.notification_delivery import DeliveryQuerySet, DeliveryState

# states that a person can send again; those held back wait for their summary
SETTLED = (DeliveryState.DELIVERED, DeliveryState.GAVE_UP, DeliveryState.NOT_SENT)
MOST = 10_000


def redeliver(delivery: Delivery, *, now: datetime) -> int:
    """Make one delivery due again; raise InvalidTransition if its channel is off."""
    require_on(delivery.channel)
    return make_due(Delivery.objects.filter(pk=delivery.pk), now=now)


def in_range(
    channel: Channel, *, since: datetime, until: datetime, undelivered_only: bool = True
) -> DeliveryQuerySet:
    rows = Delivery.objects.filter(channel=channel, created_at__gte=since, created_at__lt=until)
    rows = rows.filter(state__in=SETTLED).exclude(role="test")
    return rows.filter(~Q(state=DeliveryState.DELIVERED)) if undelivered_only else rows


def redeliver_range(channel: Channel, rows: DeliveryQuerySet, *, now: datetime) -> int:
    require_on(channel)
    return make_due(rows, now=now)


@transaction.atomic
def make_due(rows: DeliveryQuerySet, *, now: datetime) -> int:
    """Start a new round of tries for settled deliveries, and try unsettled ones at once."""
    ids: list[UUID] = list(
        rows.exclude(state__in=(DeliveryState.HELD, DeliveryState.SUMMARIZED))
        .order_by("id")
        .select_for_update(of=("self",), no_key=True)
        .values_list("pk", flat=True)[:MOST]
    )
    return Delivery.objects.filter(pk__in=ids).update(
        state=DeliveryState.PENDING,
        next_try_at=now,
        tries=0,
        delivered_at=None,
        # an undelivered one continues where its last try ended
        receipt=Case(When(state=DeliveryState.DELIVERED, then=Value("")), default=F("receipt")),
        redelivered_at=now,
    )


def require_on(channel: Channel) -> None:
    if not channel.is_on:
        raise InvalidTransition(
            f"The channel '{channel.name}' is disabled. Enable it first.",
            current=channel.state,
            allowed=[],
        )
