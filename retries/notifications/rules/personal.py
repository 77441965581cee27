"""The messages to the people whom an escalation's policy names, on their own channels."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from ledger.authorization.permissions import people_who_may
from ledger.database.sql import Row
from ledger.journal import Kind
from ledger.values.ids import SLACK, first_id
from retries.escalations.assignment import ANSWER
from retries.models import Channel, Delivery, Escalation, NotificationRule
from retries.models.notification_channel import ChannelKind
from retries.models.notification_delivery import DeliveryRole, DeliveryState
from retries.notifications.messages.answer_hints import facts_with_hints
from retries.notifications.messages.subjects import Subjects, subject_columns
from retries.notifications.messages.wording import word_event, word_reminder

KINDS = (Kind.ESCALATION_TOLD, Kind.ESCALATION_REMINDED)
ENDS = (Kind.ESCALATION_RESOLVED, Kind.ESCALATION_EXPIRED, Kind.ESCALATION_WITHDRAWN)
SENT = (DeliveryState.PENDING, DeliveryState.RETRYING, DeliveryState.DELIVERED)
MOMENT = timedelta(minutes=2)
FOOTER = "--\nAn escalation policy says who is told. Change it: {page}"


def is_for_people(event: Row) -> bool:
    return event["kind"] in ENDS or names_people(event)


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
    """Return the deliveries to people who are told of an escalation, reminded, or told its end.

    `others` are the deliveries of the same events. Quiet hours and caps hold nothing back: the
    policy says who has to know now. A person without a channel is told on those of the rules.
    """
    found = [(event, about.escalations.get(event["subject_id"])) for event in events]
    concerned = [
        (event, row)
        for event, row in found
        if row and is_for_people(event) and (row.told or row.is_open)
    ]
    if not concerned:
        return []
    given = {name for event, row in concerned for name in list_people(event, row)}
    may_answer = {id: find_people(id, given) for id in {row.project_id for _, row in concerned}}
    names = {name for each in may_answer.values() for name in each}
    people = Channel.objects.on().filter(kind=ChannelKind.PERSON, person__username__in=names)
    own = list(people.select_related("person").order_by("id"))
    shared = [rule.channel for rule in rules if "escalation" in rule.conditions]
    earlier = find_earlier([row for _, row in concerned], [*own, *shared])
    earlier |= {(each.channel_id, each.subject_id, each.kind) for each in others if is_sent(each)}
    known = {(each.channel_id, each.message_id) for each in others}
    return [
        make_delivery(channel, event, about, page=page, now=now)
        for event, row in concerned
        for channel in choose_channels(
            event,
            [name for name in list_people(event, row) if name in may_answer[row.project_id]],
            own,
            rules,
        )
        if (channel.pk, f"evt-{event['id']}") not in known and is_news(channel, event, row, earlier)
    ]


def list_people(event: Row, escalation: Escalation) -> list[str]:
    if event["kind"] not in ENDS:
        names: list[str] = event["data"]["people"]
        return names
    # one who took it by hand was reminded, but not told
    taker = [escalation.assignee.username] if escalation.assignee else []
    return list(dict.fromkeys([*escalation.told, *taker]))


def find_people(project_id: UUID, names: Iterable[str]) -> set[str]:
    """Return those who still may answer a project's escalations: others are told nothing of it."""
    people = people_who_may(ANSWER, project_id).filter(username__in=names)
    return set(people.values_list("username", flat=True))


def is_news(
    channel: Channel, event: Row, escalation: Escalation, earlier: Collection[tuple[Any, Any, str]]
) -> bool:
    had = {kind for id, subject, kind in earlier if (id, subject) == (channel.pk, escalation.pk)}
    if event["kind"] in ENDS:
        return not had.isdisjoint(KINDS)
    if event["kind"] == Kind.ESCALATION_TOLD and event["at"] - escalation.opened_at < MOMENT:
        # A rule may have told the same channel a moment before.
        return escalation.is_open and Kind.ESCALATION_OPENED not in had
    return escalation.is_open


def is_sent(delivery: Delivery) -> bool:
    return delivery.state in SENT


def find_earlier(
    escalations: Sequence[Escalation], channels: Sequence[Channel]
) -> set[tuple[Any, Any, str]]:
    # The ids bound the deliveries that are read: none is older than its escalation.
    oldest = first_id(min(each.opened_at for each in escalations) - SLACK)
    rows = Delivery.objects.filter(
        channel__in={each.pk for each in channels},
        id__gte=oldest,
        subject_id__in={each.pk for each in escalations},
        state__in=SENT,
    )
    return set(rows.values_list("channel", "subject_id", "kind")) if channels else set()


def choose_channels(
    event: Row, names: Sequence[str], own: Sequence[Channel], rules: Sequence[NotificationRule]
) -> list[Channel]:
    project = event["project_id"]
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
    role = DeliveryRole.UPDATE if event["kind"] in ENDS else DeliveryRole.NEW
    role = DeliveryRole.REMINDER if is_reminder else role
    facts = facts_with_hints(event, about, with_details=channel.include_details)
    is_end = event["kind"] in ENDS
    if not is_end:
        facts = replace(facts, action=", ".join(event["data"]["people"]))
    word = word_reminder if is_reminder else word_event
    message = word(facts, footer=FOOTER.format(page=page))
    message = replace(message, thread=str(event["subject_id"]), closes=is_end)
    return Delivery(
        channel=channel,
        message_id=f"evt-{event['id']}",
        role=role,
        body=asdict(message),
        state=DeliveryState.PENDING,
        next_try_at=now,
        created_at=now,
        **subject_columns(event, about),
    )
