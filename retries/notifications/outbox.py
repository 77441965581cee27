"""Read the journal as a stream and write a delivery for each channel that gets an event.

The event of a move is the outbox: it commits with the move, and this reader comes later.
"""

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.contrib.postgres.expressions import ArraySubquery
from django.db import transaction
from django.db.models import OuterRef

from ledger import journal
from ledger.database.sql import Row
from ledger.journal import Cursor
from ledger.models import PoolMember, Project
from retries.journal_readers.positions import ensure_cursor, lock_cursor, move_cursor
from retries.models import Channel, Delivery, NotificationRule
from retries.models.notification_channel import ChannelKind, DisabledBecause
from retries.models.notification_delivery import DeliveryRole, DeliveryState
from retries.notifications.messages.attempt_names import name_attempt
from retries.notifications.messages.subjects import Subjects, fetch_subjects, subject_columns
from retries.notifications.messages.webhook_bodies import build_body, traceparent_of
from retries.notifications.rules import conditions, mentions, personal
from retries.notifications.rules.batch import RuleBatch, rules_for

READER = "notifications"
BATCH_SIZE = 100
MOST_BATCHES = 50


@dataclass(frozen=True, slots=True)
class Audience:
    """The channels and rules that may be told of events."""

    webhooks: list[Channel]
    rules: list[NotificationRule]

    has_people: bool  # a channel reaches a person by name

    def wants(self, event: Row) -> bool:
        return (
            any(types_for(channel, event) for channel in self.webhooks)
            or bool(rules_for(event, self.rules))
            or (
                self.has_people and (personal.is_for_people(event) or mentions.is_for_people(event))
            )
        )


def read_outbox(*, now: datetime, project: Project | None = None) -> int:
    """Write the deliveries of all settled events; return how many were written."""
    written = 0
    for _ in range(MOST_BATCHES):
        count, is_last = read_batch(now)
        written += count
        if is_last:
            break
    return written


def begin_reading(now: datetime) -> None:
    """Begin at the head of the journal, unless it was read before."""
    ensure_cursor(READER, start=journal.fetch_head(), now=now)


@transaction.atomic
def read_batch(now: datetime) -> tuple[int, bool]:
    """Read some events and move the cursor in one transaction; return whether none is left."""
    begin_reading(now)
    cursor = lock_cursor(READER)
    audience = fetch_audience()
    if not audience.webhooks and not audience.rules and not audience.has_people:
        move_cursor(cursor, journal.fetch_head(), now)
        return 0, True
    events = journal.fetch_stream(Cursor(cursor.tx, str(cursor.event_id)), limit=BATCH_SIZE)
    if not events:
        return 0, True
    wanted = [event for event in events if audience.wants(event)]
    written = write_deliveries(wanted, audience, now=now) if wanted else 0
    last = events[-1]
    move_cursor(cursor, Cursor(int(last["tx"]), str(last["id"])), now)
    return written, len(events) < BATCH_SIZE


def fetch_audience() -> Audience:
    # Channels that gave up are included, because their deliveries are kept unsent. Rules are in the
    # order of their ids: of two rules with one message for a channel, the older one sends it.
    webhooks = Channel.objects.filter(kind=ChannelKind.WEBHOOK).exclude(
        disabled_because=DisabledBecause.BY_HAND
    )
    rules = NotificationRule.objects.filter(enabled=True).order_by("id")
    found = list(webhooks.order_by("id"))
    members = PoolMember.objects.filter(pool=OuterRef("agent")).values("agent")
    of_pools = rules.annotate(members=ArraySubquery(members))
    told: list[NotificationRule] = list(
        of_pools.select_related("channel__person", "second_channel__person")
    )
    people = Channel.objects.on().filter(kind=ChannelKind.PERSON, person__isnull=False)
    # With a webhook or a rule, the journal is read anyway.
    return Audience(found, told, has_people=bool(found or told) or people.exists())


def types_for(channel: Channel, event: Row) -> list[str]:
    """Return the types under which a webhook gets an event."""
    # No webhook is told of its own end. The names of attempts go only to webhooks that ask for
    # them: others get the task's event.
    if channel.project_id not in (None, event["project_id"]) or event["at"] < channel.enabled_at:
        return []
    if event["subject_type"] == "channel" and event["subject_id"] == channel.pk:
        return []
    types = [event["kind"]] if conditions.passes_filter(channel.events, event["kind"]) else []
    asked = [pattern for pattern in channel.events if pattern.startswith("attempt.")]
    name = name_attempt(event) if asked else None
    return [*types, name] if name and conditions.passes_filter(asked, name) else types


def write_deliveries(events: list[Row], audience: Audience, *, now: datetime) -> int:
    about = fetch_subjects(events)
    deliveries = [
        webhook_delivery(channel, event, about, type=type, now=now)
        for event in events
        for channel in audience.webhooks
        for type in types_for(channel, event)
    ]
    batch = RuleBatch(audience.rules, about, now=now)
    deliveries += batch.process(events)
    deliveries += personal.list_deliveries(
        events,
        about,
        rules=audience.rules,
        others=deliveries,
        page=f"{settings.LINK_URL}/settings/on-call/",
        now=now,
    )
    deliveries = mentions.add_deliveries(deliveries, events, about, now=now)
    # An event that was read before has its deliveries already. They stay: all rules of an event are
    # applied in one batch, so no later rule can find that an earlier batch has held its message.
    Delivery.objects.bulk_create(deliveries, batch_size=50, ignore_conflicts=True)
    return len(deliveries)


def webhook_delivery(
    channel: Channel, event: Row, about: Subjects, *, type: str, now: datetime
) -> Delivery:
    state = DeliveryState.PENDING if channel.is_on else DeliveryState.NOT_SENT
    body = build_body(event, about, include_details=channel.include_details)
    # a webhook may get an event under both types, and each is a message of its own
    suffix = "" if type == event["kind"] else "-attempt"
    return Delivery(
        channel=channel,
        message_id=f"evt-{event['id']}{suffix}",
        role=DeliveryRole.EVENT,
        body=body | {"type": type},
        traceparent=traceparent_of(event["id"]),
        state=state,
        next_try_at=now if channel.is_on else None,
        created_at=now,
        **subject_columns(event, about) | {"kind": type},
    )
