"""The messages to the people whom an escalation's policy names, on their own channels."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from ledger.database.sql import Row
from ledger.journal import Kind
from retries.models import Channel, Delivery, NotificationRule
from retries.models.notification_channel import ChannelKind
from retries.models.notification_delivery import DeliveryRole, DeliveryState
from retries.notifications.messages.answer_hints import facts_with_hints
from retries.notifications.messages.subjects import Subjects, subject_columns
from retries.notifications.messages.wording import word_event, word_reminder

KINDS = (Kind.ESCALATION_TOLD, Kind.ESCALATION_REMINDED)
SENT = (DeliveryState.PENDING, DeliveryState.RETRYING, DeliveryState.DELIVERED)
FOOTER = "--\nYou are on call for it. Change that: {page}"


def names_people(event: Row) -> bool:
    return event["kind"] in KINDS and bool(event["data"].get("people"))


def list_deliveries(
    events: Iterable[Row],
    about: Subjects,
    *,
    rules: Sequence[NotificationRule],
    others: Sequence[Delivery],
    page: str,
    now: datetime,
) -> list[Delivery]:
    """Return the deliveries to people who are told of an escalation or reminded of it.

    `others` are the deliveries of the same events. Quiet hours and caps hold nothing back: the
    policy says who has to know now. A person without a channel is told on those of the rules.
    """
    found = [event for event in events if names_people(event)]
    if not found:
        return []
    names = {name for event in found for name in event["data"]["people"]}
    people = Channel.objects.on().filter(kind=ChannelKind.PERSON, person__username__in=names)
    own = list(people.select_related("person").order_by("id"))
    known = {(each.channel_id, each.message_id) for each in others}
    first = {(each.channel_id, each.subject_id) for each in others if is_opening(each)}
    first |= find_openings(found, own)
    return [
        make_delivery(channel, event, about, page=page, now=now)
        for event in found
        for channel in choose_channels(event, own, rules)
        if (channel.pk, f"evt-{event['id']}") not in known
        and not (is_first_step(event) and (channel.pk, event["subject_id"]) in first)
    ]


def is_opening(delivery: Delivery) -> bool:
    return delivery.kind == Kind.ESCALATION_OPENED and delivery.state in SENT


def is_first_step(event: Row) -> bool:
    return event["kind"] == Kind.ESCALATION_TOLD and event["data"].get("step") == 1


def find_openings(events: Collection[Row], channels: Sequence[Channel]) -> set[tuple[UUID, Any]]:
    # A rule may have told the same channel of the same escalation a moment before.
    subjects = {event["subject_id"] for event in events if is_first_step(event)}
    rows = Delivery.objects.filter(
        channel__in=channels, subject_id__in=subjects, kind=Kind.ESCALATION_OPENED, state__in=SENT
    )
    return set(rows.values_list("channel", "subject_id")) if subjects and channels else set()


def choose_channels(
    event: Row, own: Sequence[Channel], rules: Sequence[NotificationRule]
) -> list[Channel]:
    project, names = event["project_id"], event["data"]["people"]
    reaching = [each for each in own if each.project_id in (None, project)]
    chosen = [each for each in reaching if each.person and each.person.username in names]
    reached = {each.person.username for each in chosen if each.person}
    if not reached.issuperset(names):
        shared = [
            rule.channel
            for rule in rules
            if rule.project_id in (None, project)
            and "escalation" in rule.conditions
            and rule.channel.is_on
        ]
        chosen += list({each.pk: each for each in shared}.values())
    return list({each.pk: each for each in chosen}.values())


def make_delivery(
    channel: Channel, event: Row, about: Subjects, *, page: str, now: datetime
) -> Delivery:
    is_reminder = event["kind"] == Kind.ESCALATION_REMINDED
    facts = facts_with_hints(event, about, with_details=channel.include_details)
    facts = replace(facts, action=", ".join(event["data"]["people"]))
    word = word_reminder if is_reminder else word_event
    message = replace(word(facts, footer=FOOTER.format(page=page)), thread=str(event["subject_id"]))
    return Delivery(
        channel=channel,
        message_id=f"evt-{event['id']}",
        role=DeliveryRole.REMINDER if is_reminder else DeliveryRole.NEW,
        body=asdict(message),
        state=DeliveryState.PENDING,
        next_try_at=now,
        created_at=now,
        **subject_columns(event, about),
    )
