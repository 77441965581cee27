"""Read the rows and counts of the Deliveries page."""

import json
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from django.db.models import Count, F, Q, QuerySet

from dashboard.frame.live_updates import stamp_key
from dashboard.lists import pagination
from dashboard.lists.pagination import Page
from dashboard.lists.shared_queries import bound_ids, hash_of, match_any, match_period
from dashboard.lists.sorting import SortColumn, slice_sorted
from dashboard.notifications.delivery_filters import STATES, DeliveryQuery
from ledger.database import sql
from ledger.database.optional_cache import get_or_compute_slow
from ledger.models import Project
from retries.models import Channel, Delivery, DeliveryTry
from retries.models.notification_delivery import DeliveryState

# columns that a list does not read
HEAVY = ("body", "response", "traceparent")


KEY = """select
    (select id from retries_delivery order by id desc limit 1) as newest,
    (select max(id) from retries_deliverytry) as tried,
    (select count(*) || max(updated_at)::text from retries_channel) as changed,
    (select count(*) || max(updated_at)::text from retries_notificationrule) as ruled"""


def read_key(now: datetime) -> str:
    """Return a key that changes with channels, rules, deliveries and their tries."""
    found = sql.run(KEY)[0]
    return stamp_key(now, ".".join(map(str, found.values())))


def filter_deliveries(
    query: DeliveryQuery, project: Project | None, *, now: datetime
) -> QuerySet[Delivery]:
    """Return the deliveries that match a query."""
    rows = Delivery.objects.filter(
        concerning(project),
        match_any(query.channel, lambda name: Q(channel__name__icontains=name)),
        match_any(query.event, of_kind),
        match_any(query.state, lambda name: Q(state__in=STATES[name])),
        match_period(query.sent, "created_at"),
        bound_ids(query.sent),
    )
    if query.code:
        start, end = query.code
        rows = rows.filter(code__range=(start, end)) if start else rows.filter(code=None)
    if query.older:
        rows = rows.filter(created_at__lt=now - query.older)
    for word in query.words:
        rows = rows.filter(title__icontains=word)
    return rows.filter(id__in=query.ids) if query.ids else rows


def concerning(project: Project | None) -> Q:
    """Return the condition for what belongs to a project or to all of them, such as tests."""
    return Q(project=None) | Q(project=project) if project else Q()


def of_kind(name: str) -> Q:
    """Return the condition for a kind of event, such as `task.failed` or `task.*`."""
    return Q(kind__startswith=name[:-1]) if name.endswith("*") else Q(kind=name)


COLUMNS = {
    "channel": SortColumn(F("channel__name")),
    "tries": SortColumn(F("tries"), largest_first=True),
    "sent": SortColumn(F("id"), largest_first=True, is_indexed=True),
}
DEFAULT_SORT = "-sent"


def list_deliveries(
    query: DeliveryQuery,
    project: Project | None,
    sort: str = "",
    *,
    before: UUID | None,
    after: UUID | None,
    now: datetime,
) -> Page[Delivery]:
    """Return the page of deliveries next to one, newest first unless in another order."""
    return pagination.read_page(
        partial(fetch_deliveries, query, project, sort, now), before=before, after=after
    )


def fetch_deliveries(
    query: DeliveryQuery,
    project: Project | None,
    sort: str,
    now: datetime,
    before: UUID | None,
    after: UUID | None,
) -> list[Delivery]:
    rows = filter_deliveries(query, project, now=now).select_related("channel").defer(*HEAVY)
    return list(slice_sorted(rows, sort, COLUMNS, before=before, after=after))


def count_by_state(
    query: DeliveryQuery, project: Project | None, *, now: datetime
) -> dict[str, int]:
    """Count the matching deliveries by the names of the list's buttons."""
    query = query.stateless()

    def count() -> dict[str, int]:
        rows = filter_deliveries(query, project, now=now).order_by()
        found = dict(rows.values_list("state").annotate(n=Count("*")))
        parts = {name: sum(found.get(state, 0) for state in of) for name, of in STATES.items()}
        return {"all": sum(found.values()), **parts}

    name = f"deliveries:{project.id if project else 'all'}:{hash_of(query)}"
    return get_or_compute_slow(name, count)


def select_given_up(project: Project | None) -> QuerySet[Delivery]:
    """Return the deliveries that gave up."""
    return Delivery.objects.filter(concerning(project), state=DeliveryState.GAVE_UP)


@dataclass(frozen=True, slots=True)
class OpenedDelivery:
    """A delivery with its body, its answer and its tries."""

    row: Delivery
    tries: list[DeliveryTry]
    size: int  # of the body, in bytes


def find_opened(delivery_id: UUID | None) -> OpenedDelivery | None:
    rows = Delivery.objects.select_related("channel")
    row = rows.filter(pk=delivery_id).first() if delivery_id else None
    if row is None:
        return None
    tries = list(row.each_try.defer("response").order_by("number"))
    return OpenedDelivery(row, tries, len(json_text(row.body).encode()))


def json_text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def list_channels(project: Project | None) -> list[Channel]:
    """Return the channels that a range can be redelivered to."""
    rows = Channel.objects.reaching(project) if project else Channel.objects.all()
    return list(rows.order_by("name"))
