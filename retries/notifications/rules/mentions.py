"""The messages to people whom a comment mentions or who are given a row, on their own channels."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from datetime import datetime

from ledger.authorization.permissions import people_who_may
from ledger.database.sql import Row
from ledger.journal import Kind
from retries.assignment.rows import PATTERN, TASK
from retries.escalations.assignment import SEE
from retries.models import Channel, Delivery
from retries.models.notification_channel import ChannelKind
from retries.models.notification_delivery import DeliveryRole, DeliveryState
from retries.notifications.messages.subjects import Subjects, facts_of, subject_columns
from retries.notifications.messages.wording import MENTION, word_event

# the kinds of events, with the permission to see their subjects
COMMENTS = {Kind.ESCALATION_COMMENTED.value: SEE} | {
    noun.commented.value: noun.permission("view") for noun in (TASK, PATTERN)
}
# people who were given an escalation are told by its policy
ASSIGNMENTS = {noun.assigned.value: noun.permission("view") for noun in (TASK, PATTERN)}
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


def list_deliveries(
    events: Iterable[Row], about: Subjects, *, others: Sequence[Delivery], now: datetime
) -> list[Delivery]:
    """Return the deliveries to people who may still see the subject; `others` are of these events.

    Quiet hours hold nothing back: a person asked this person.
    """
    known = {(each.channel_id, each.message_id) for each in others}
    return [
        make_delivery(channel, event, about, now=now)
        for event in events
        if (names := list_names(event))
        for channel in list_channels(event, names)
        if (channel.pk, f"evt-{event['id']}") not in known
    ]


def list_channels(event: Row, names: Sequence[str]) -> list[Channel]:
    permission = (COMMENTS | ASSIGNMENTS)[event["kind"]]
    people = people_who_may(permission, event["project_id"]).filter(username__in=names)
    own = Channel.objects.on().filter(kind=ChannelKind.PERSON, person__in=people.values("pk"))
    rows = own.select_related("person").order_by("id")
    return [each for each in rows if each.project_id in (None, event["project_id"])]


def make_delivery(channel: Channel, event: Row, about: Subjects, *, now: datetime) -> Delivery:
    details = channel.include_details
    facts = facts_of(event, about, with_details=details)
    if event["kind"] in COMMENTS:
        detail = event["data"]["text"] if details else ""
        facts = replace(facts, kind=MENTION, detail=detail)
    message = word_event(facts, footer=FOOTER)
    return Delivery(
        channel=channel,
        message_id=f"evt-{event['id']}",
        role=DeliveryRole.NEW,
        body=asdict(message),
        state=DeliveryState.PENDING,
        next_try_at=now,
        created_at=now,
        **subject_columns(event, about),
    )
