"""Read one delivery, and what pages beside the list of deliveries show of them."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from dashboard.frame.live_updates import stamp_key
from ledger.database import sql
from ledger.models import Project
from retries.models import Channel, Delivery, DeliveryTry
from retries.models.notification_delivery import DeliveryState

KEY = """select
    (select id from retries_delivery order by id desc limit 1) as newest,
    (select max(id) from retries_deliverytry) as tried,
    (select count(*) || max(updated_at)::text from retries_channel) as changed,
    (select count(*) || max(updated_at)::text from retries_notificationrule) as ruled"""


def read_key(now: datetime) -> str:
    """Return a key that changes with channels, rules, deliveries and their tries."""
    found = sql.run(KEY)[0]
    return stamp_key(now, ".".join(map(str, found.values())))


def concerning(project: Project | None) -> Q:
    # A row without a project, such as a test, belongs to all of them.
    return Q(project=None) | Q(project=project) if project else Q()


def select_given_up(project: Project | None) -> QuerySet[Delivery]:
    return Delivery.objects.filter(concerning(project), state=DeliveryState.GAVE_UP)


@dataclass(frozen=True, slots=True)
class OpenedDelivery:
    """A delivery with its body, its answer and its tries."""

    row: Delivery
    tries: list[DeliveryTry]
    size: int  # the body's size, in bytes


def find_opened(delivery_id: UUID) -> OpenedDelivery | None:
    row = Delivery.objects.select_related("channel").filter(pk=delivery_id).first()
    if row is None:
        return None
    tries = list(row.each_try.defer("response").order_by("number"))
    return OpenedDelivery(row, tries, len(json_text(row.body).encode()))


def json_text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def list_channels(project: Project | None) -> list[Channel]:
    rows = Channel.objects.reaching(project) if project else Channel.objects.all()
    return list(rows.order_by("name"))
