"""The messages to people whom a comment mentions or who are given a row, on their own channels."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any
from urllib.parse import quote
from uuid import UUID

from django.conf import settings

from ledger.authorization.permissions import people_who_may
from ledger.database.sql import Row
from ledger.journal import Kind
from ledger.values.ids import SLACK, first_id
from ledger.values.text import counted
from retries.assignment.rows import PATTERN, TASK
from retries.escalations.assignment import SEE
from retries.models import Channel, Delivery
from retries.models.notification_channel import ChannelKind
from retries.models.notification_delivery import DeliveryRole, DeliveryState
from retries.notifications.messages.subjects import Subjects, facts_of, subject_columns
from retries.notifications.messages.wording import MENTION, word_assigned, word_event

# the kinds of events, with the permission to see their subjects
COMMENTS = {Kind.ESCALATION_COMMENTED.value: SEE} | {
    noun.commented.value: noun.permission("view") for noun in (TASK, PATTERN)
}
# people who were given an escalation are told by its policy
ASSIGNMENTS = {noun.assigned.value: noun.permission("view") for noun in (TASK, PATTERN)}
PAUSE = timedelta(minutes=5)  # between messages about what one person assigns to another
Group = tuple[UUID, str, UUID | None, str]  # channel, kind, project, and the name of who assigns
FOOTER = "--\nComments with your @name and what others assign to you are sent here."


def is_for_people(event: Row) -> bool:
    return bool(list_names(event))


def list_names(event: Row) -> list[str]:
    """Return the usernames of those to tell of an event, without the one who caused it."""
    data, names = event["data"], list[str]()
    if event["kind"] in COMMENTS:
        names = list(data.get("mentions") or ())
    elif event["kind"] in ASSIGNMENTS and data.get("user"):
        names = [data["user"]]
    is_person = event["actor_type"] == "user"
    return [name for name in names if not (is_person and name == event["actor_name"])]


def add_deliveries(
    deliveries: Sequence[Delivery], events: Iterable[Row], about: Subjects, *, now: datetime
) -> list[Delivery]:
    """Return the deliveries of events with those to people who may still see the subject.

    Quiet hours hold nothing back, because a person wrote to this person: such a message takes the
    place of one that a rule holds back.
    """
    find_channels = cache(list_channels)
    known = {
        (each.channel_id, each.message_id)
        for each in deliveries
        if each.state != DeliveryState.HELD
    }
    told = [
        (channel, event)
        for event in events
        if (names := list_names(event))
        for channel in find_channels(event["kind"], event["project_id"], tuple(names))
        if (channel.pk, message_id(event)) not in known
    ]
    replaced = {(channel.pk, message_id(event)) for channel, event in told}
    return [
        *(each for each in deliveries if (each.channel_id, each.message_id) not in replaced),
        *(make_delivery(*each, about, now=now) for each in told if each[1]["kind"] in COMMENTS),
        *tell_assigned([each for each in told if each[1]["kind"] in ASSIGNMENTS], about, now=now),
    ]


def message_id(event: Row) -> str:
    return f"evt-{event['id']}"


def list_channels(kind: str, project_id: UUID, names: tuple[str, ...]) -> list[Channel]:
    permission = (COMMENTS | ASSIGNMENTS)[kind]
    people = people_who_may(permission, project_id).filter(username__in=names)
    own = Channel.objects.on().filter(kind=ChannelKind.PERSON, person__in=people.values("pk"))
    rows = own.select_related("person").order_by("id")
    return [each for each in rows if each.project_id in (None, project_id)]


def tell_assigned(
    told: Iterable[tuple[Channel, Row]], about: Subjects, *, now: datetime
) -> list[Delivery]:
    """Return one delivery for all that one person assigns to another at once.

    Within PAUSE after it, one more waits and counts what follows: a bulk operation assigns
    thousands of rows in many transactions.
    """
    groups: dict[Group, list[tuple[Channel, Row]]] = {}
    for channel, event in told:
        key = (channel.pk, event["kind"], event["project_id"], event["actor_name"])
        groups.setdefault(key, []).append((channel, event))
    recent = find_recent({key[0] for key in groups}, now=now) if groups else {}
    made = []
    for key, rows in groups.items():
        (channel, event), last = rows[0], recent.get(key)
        if last and count_more(last, event, about, more=len(rows), now=now):
            continue
        delivery = make_delivery(channel, event, about, now=now)
        delivery.body |= {"assigned_by": event["actor_name"], "assigned": len(rows)}
        if len(rows) > 1:
            for name, value in describe_many(event, about, count=len(rows)).items():
                setattr(delivery, name, value)
        if last:
            delivery.next_try_at = last.created_at + PAUSE
        made.append(delivery)
    return made


def find_recent(channels: Iterable[UUID], *, now: datetime) -> dict[Group, Delivery]:
    rows = Delivery.objects.filter(
        channel__in=channels,
        id__gte=first_id(now - PAUSE - SLACK),
        kind__in=ASSIGNMENTS,
        body__has_key="assigned_by",
        created_at__gt=now - PAUSE,
    ).order_by("id")
    return {
        (each.channel_id, each.kind, each.project_id, each.body["assigned_by"]): each
        for each in rows
    }


def count_more(last: Delivery, event: Row, about: Subjects, *, more: int, now: datetime) -> bool:
    """Count more rows in a delivery if it still waits; return whether it does."""
    waiting = Delivery.objects.filter(pk=last.pk, state=DeliveryState.PENDING, next_try_at__gt=now)
    return bool(waiting.update(**describe_many(event, about, count=last.body["assigned"] + more)))


def describe_many(event: Row, about: Subjects, *, count: int) -> dict[str, Any]:
    """Return the columns of a delivery about several rows; it has no subject."""
    facts = facts_of(event, about, with_details=False)
    noun, page = ("task", "tasks") if event["subject_type"] == "task" else ("pattern", "patterns")
    url = f"{settings.LINK_URL}/{page}/?project={quote(facts.project)}&q=assignee:me"
    message = word_assigned(facts, counted(count, noun), url=url, footer=FOOTER)
    return {
        "body": asdict(message) | {"assigned_by": event["actor_name"], "assigned": count},
        "title": counted(count, noun),
        "event_id": None,
        "subject_type": "",
        "subject_id": None,
        "agent_id": None,
    }


def make_delivery(channel: Channel, event: Row, about: Subjects, *, now: datetime) -> Delivery:
    details = channel.include_details
    facts = facts_of(event, about, with_details=details)
    if event["kind"] in COMMENTS:
        detail = event["data"]["text"] if details else ""
        facts = replace(facts, kind=MENTION, detail=detail)
    message = word_event(facts, footer=FOOTER)
    return Delivery(
        channel=channel,
        message_id=message_id(event),
        role=DeliveryRole.NEW,
        body=asdict(message),
        state=DeliveryState.PENDING,
        next_try_at=now,
        created_at=now,
        **subject_columns(event, about),
    )
