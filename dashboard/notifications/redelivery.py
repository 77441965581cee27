"""A range of deliveries to send once more: counted first, sent after a confirmation."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.db.models import Count
from django.http import QueryDict

from dashboard.lists.query_box import as_id
from dashboard.notifications.delivery_queries import concerning, list_channels
from ledger.models import Project
from retries.models import Channel, Delivery
from retries.models.notification_delivery import DeliveryQuerySet, DeliveryState
from retries.notifications.deliveries import redelivery

WHICH = (("undelivered", "not delivered"), ("all", "of any state"))
FORMAT = "%Y-%m-%dT%H:%M"


@dataclass(frozen=True, slots=True)
class Range:
    """The form of a range; `count` is None until it is complete."""

    channels: list[Channel]
    channel: Channel | None
    which: str
    start: str
    end: str
    count: int | None
    problem: str = ""
    choices: tuple[tuple[str, str], ...] = WHICH


def read_range(given: QueryDict, project: Project | None, *, now: datetime) -> Range | None:
    if "range" not in given:
        return None
    channels = list_channels(project)
    wanted = as_id(given.get("to", ""))
    channel = next((each for each in channels if each.pk == wanted), None)
    which = "all" if given.get("which") == "all" else "undelivered"
    start = given.get("from") or (now - timedelta(hours=1)).astimezone(UTC).strftime(FORMAT)
    end = given.get("until") or (now + timedelta(minutes=1)).astimezone(UTC).strftime(FORMAT)
    problem, count = "", None
    if channel:
        try:
            count = find_range(channel, which, start, end)[: redelivery.MOST].count()
        except ValueError as error:
            problem = str(error)
    return Range(channels, channel, which, start, end, count, problem)


def find_range(channel: Channel, which: str, start: str, end: str) -> DeliveryQuerySet:
    """Return the deliveries to a channel between two times; raise ValueError for a bad one."""
    since, until = read_time(start), read_time(end)
    if since >= until:
        raise ValueError("The first time must be before the second.")
    return redelivery.in_range(
        channel, since=since, until=until, undelivered_only=which == "undelivered"
    )


def read_time(text: str) -> datetime:
    try:
        return datetime.strptime(text, FORMAT).replace(tzinfo=UTC)
    except ValueError:
        raise ValueError(f"“{text[:20]}” is not a time such as 2026-11-22T13:20.") from None


def find_wanted(given: QueryDict, ids: list[UUID], project: Project | None) -> DeliveryQuerySet:
    """Return a form's deliveries: a selection, or a range to one channel."""
    if "to" not in given:
        return Delivery.objects.filter(concerning(project), pk__in=ids)
    wanted = as_id(given.get("to", ""))
    channel = next((each for each in list_channels(project) if each.pk == wanted), None)
    if channel is None:
        raise ValueError("This channel no longer exists.")
    which = "all" if given.get("which") == "all" else "undelivered"
    rows = find_range(channel, which, given.get("from", ""), given.get("until", ""))
    return rows


def send_again(rows: DeliveryQuerySet, *, now: datetime) -> int:
    """Make deliveries due again and return their number; raise Refusal if a channel is off."""
    channels = Channel.objects.filter(pk__in=rows.order_by().values("channel"))
    for channel in channels.order_by("name"):
        redelivery.require_on(channel)
    return redelivery.make_due(rows, now=now)


# ---- progress


@dataclass(frozen=True, slots=True)
class RedeliveryProgress:
    """The progress of the deliveries of one redelivery."""

    at: datetime
    total: int
    delivered: int
    retrying: int
    failed: int

    @property
    def waiting(self) -> int:
        return self.total - self.delivered - self.retrying - self.failed

    @property
    def tried(self) -> int:
        return self.total - self.waiting

    @property
    def is_over(self) -> bool:
        # Once all deliveries have ended, the page need not poll.
        return self.delivered + self.failed == self.total


def read_progress(given: QueryDict, project: Project | None) -> RedeliveryProgress | None:
    """Return the progress of the range in the address, or of the newest one under way."""
    rows = Delivery.objects.filter(concerning(project))
    at = read_moment(given.get("again", ""))
    if at is None:
        going = rows.filter(redelivered_at__isnull=False).unsettled()
        at = going.order_by("-redelivered_at").values_list("redelivered_at", flat=True).first()
    if at is None:
        return None
    counts = rows.filter(redelivered_at=at).order_by().values_list("state")
    found: dict[str, int] = dict(counts.annotate(n=Count("*")))
    if not found:
        return None
    return RedeliveryProgress(
        at,
        sum(found.values()),
        delivered=found.get(DeliveryState.DELIVERED, 0),
        retrying=found.get(DeliveryState.RETRYING, 0),
        failed=found.get(DeliveryState.GAVE_UP, 0) + found.get(DeliveryState.NOT_SENT, 0),
    )


def read_moment(text: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at.tzinfo else None
