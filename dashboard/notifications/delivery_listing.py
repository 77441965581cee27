"""The list of deliveries: `channel:mirror event:task.* code:503 older:2h`."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import F, Q, QuerySet
from django.urls import reverse

from dashboard.frame.access import may_open
from dashboard.frame.rendering import SETTINGS, Visit
from dashboard.listing import (
    Column,
    Listing,
    ListPage,
    State,
    any_of,
    build_toggle,
    older_than,
    within,
)
from dashboard.lists.query_box import ANY, Names, StateQuery, Values, as_id
from dashboard.lists.query_values import Period, read_age, read_period
from dashboard.lists.sorting import BY_ID, SortColumn, largest
from dashboard.notifications import delivery_queries, redelivery
from dashboard.notifications.delivery_queries import OpenedDelivery, concerning
from ledger.models import Project
from retries.models import Delivery
from retries.models.notification_delivery import DeliveryState
from retries.notifications import channels
from retries.notifications.deliveries.retry_schedule import MOST_TRIES
from retries.notifications.services import kinds

REDELIVER = "deliveries_redeliver"
CODE = re.compile(r"(?P<class>[1-5])xx|\d{3}|none")
# the page of an event's subject, by the subject's name
SUBJECTS = {
    "escalation": ("escalation", "Open the escalation"),
    "task": ("task", "Open the task"),
    "instruction": ("instruction", "Open the instruction"),
    "plan": ("plan", "Open the plan"),
    "agent": ("agent", "Open the agent"),
    "limit": ("limits", "Open the limits"),
    "budget": ("budgets", "Open the budgets"),
    "price": ("budgets", "Open the prices"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryQuery(StateQuery):
    channel: Values = ANY
    event: Values = ANY
    code: tuple[int, int] | None = None  # lowest and highest; (0, 0) for no answer
    older: timedelta | None = None
    sent: Period | None = None


def read_code(value: str) -> Mapping[str, Any]:
    """Return the range of status codes that a value means.

    >>> read_code("503"), read_code("4xx"), read_code("none")
    ({'code': (503, 503)}, {'code': (400, 499)}, {'code': (0, 0)})
    """
    match = CODE.fullmatch(value)
    if match is None:
        raise ValueError(f"“code:{value}” is not a status. Try code:503, code:5xx or code:none.")
    if value == "none":
        return {"code": (0, 0)}
    start = int(match["class"]) * 100 if match["class"] else int(value)
    return {"code": (start, start + 99 if match["class"] else start)}


def has_code(range: tuple[int, int]) -> Q:
    return Q(code__range=range) if range[0] else Q(code=None)


def is_of_kind(name: str) -> Q:
    return Q(kind__startswith=name[:-1]) if name.endswith("*") else Q(kind=name)


class DeliveryList(Listing[DeliveryQuery]):
    name = "deliveries"
    current = "settings"
    heading = "Deliveries"
    nouns = "deliveries"
    crumbs = (SETTINGS,)

    model = Delivery
    query = DeliveryQuery
    keys = {
        "channel": Names(),
        "event": Names(),
        "state": Names(("retrying", "gave-up", "delivered", "not-sent", "held")),
        "code": read_code,
        "older": read_age("older"),
        "sent": read_period("sent"),
        "created": read_period("created", "sent"),
    }
    conditions = {
        "channel": any_of(lambda name: Q(channel__name__icontains=name)),
        "event": any_of(is_of_kind),
        "code": has_code,
        "older": older_than("created_at"),
        "sent": within("created_at", is_creation=True),
    }
    searched = ("title",)
    states = {
        "retrying": State("Retrying", ("pending", "retrying")),
        "gave-up": State("Gave up", ("gave_up",)),
        "delivered": State("Delivered", ("delivered",)),
        "not-sent": State("Not sent", ("not_sent",)),
        "held": State("Held back", ("held", "summarized")),
    }
    dates = "sent"

    template = "notifications/deliveries.html"
    part = "notifications/_deliveries.html"
    row = "notifications/_delivery_row.html"
    empty = "notifications/_nothing_sent.html"
    bar = "listing__bar listing__bar--dense listing__bar--full"
    example = "channel:mirror  event:task.*  code:503  older:2h"
    columns = (
        Column("State"),
        Column("About"),
        Column("Event", "c-lg"),
        Column("Channel", "", "channel", SortColumn(F("channel__name"))),
        Column("Tries", "r c-md", "tries", largest(F("tries"))),
        Column("Response", "r"),
        Column("Latency", "r c-md"),
        Column("Sent", "r c-md", "sent", BY_ID),
    )
    default_sort = "-sent"
    verbs = (REDELIVER,)

    export_columns = {
        "id": "id",
        "project": "project__name",
        "channel": "channel__name",
        "event": "kind",
        "subject_type": "subject_type",
        "subject_id": "subject_id",
        "title": "title",
        "state": "state",
        "tries": "tries",
        "code": "code",
        "error": "error",
        "latency_ms": "latency_ms",
        "created_at": "created_at",
        "first_try_at": "first_try_at",
        "next_try_at": "next_try_at",
        "delivered_at": "delivered_at",
    }

    def rows(self, project: Project | None) -> QuerySet[Any]:
        return Delivery.objects.filter(concerning(project))

    def load(self, rows: QuerySet[Any], opened: UUID | None) -> QuerySet[Any]:
        return rows.select_related("channel").defer("body", "response", "traceparent")

    def build_entries(self, page: ListPage, visit: Visit) -> list[Any]:
        opened = as_id(visit.request.GET.get("open", ""))
        return [build_entry(row, visit, is_open=row.pk == opened) for row in page.page.rows]

    def read_extra(self, page: ListPage, visit: Visit) -> dict[str, Any]:
        given, project = visit.request.GET, visit.scope.project
        may_act = may_open(visit.request.user, REDELIVER)
        return {
            "range": redelivery.read_range(given, project, now=visit.now) if may_act else None,
            "progress": redelivery.read_progress(given, project),
            "chosen": set(given.getlist("id")),
        }

    @property
    def read_key(self) -> Callable[[datetime], str]:
        return delivery_queries.read_key


DELIVERIES = DeliveryList()


# ---- the rows


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the list, with its details if it is open."""

    row: Delivery
    icon: str
    recipient: str
    tries: str
    answer: str
    is_bad: bool
    opened: OpenedDelivery | None
    toggle: str  # the query string that opens or closes it
    subject_url: str  # the URL of its subject's page
    subject_label: str


def page_of(row: Delivery, name: str) -> str:
    if name in ("limits", "budgets"):  # one page for all
        return reverse(f"dashboard:{name}")
    return reverse(f"dashboard:{name}", args=[row.subject_id]) if name and row.subject_id else ""


def build_entry(row: Delivery, visit: Visit, *, is_open: bool) -> Entry:
    name, label = SUBJECTS.get(row.subject_type, ("", ""))
    return Entry(
        row=row,
        icon=kinds.kind_of(row.channel).icon,
        recipient=channels.describe_recipient(row.channel),
        tries=describe_tries(row),
        answer=describe_answer(row),
        is_bad=row.state in (DeliveryState.RETRYING, DeliveryState.GAVE_UP),
        opened=delivery_queries.find_opened(row.pk) if is_open else None,
        toggle=build_toggle(visit, row.pk, is_open=is_open),
        subject_url=page_of(row, name),
        subject_label=label,
    )


def describe_tries(row: Delivery) -> str:
    # While there may be more tries, the text also has their maximum.
    unfinished = row.state in (DeliveryState.RETRYING, DeliveryState.GAVE_UP)
    return f"{row.tries}/{MOST_TRIES}" if unfinished else str(row.tries)


def describe_answer(row: Delivery) -> str:
    """Return the result of the last try as a short text."""
    if row.code:
        return str(row.code)
    if row.tries == 0:
        return {
            DeliveryState.HELD: "waits",
            DeliveryState.SUMMARIZED: "in a summary",
            DeliveryState.PENDING: "waits",
        }.get(DeliveryState(row.state), "not sent")
    if row.state == DeliveryState.DELIVERED:
        return "accepted"
    return "no answer"
