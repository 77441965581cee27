"""Repeat messages until someone reacts, and tell a second channel if no one does."""

from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from ledger.database import sql
from ledger.database.sql import Row
from ledger.models import Event
from ledger.values.ids import first_id
from retries.models import Channel, Delivery, Escalation, NotificationThread
from retries.models.notification_delivery import DeliveryRole, DeliveryState
from retries.notifications.messages.answer_hints import facts_with_hints
from retries.notifications.messages.subjects import fetch_subjects, subject_columns
from retries.notifications.messages.wording import word_reminder
from retries.notifications.rules.batch import footer_of, later
from retries.notifications.rules.conditions import condition_of
from retries.notifications.rules.holding import Holding

BATCH_SIZE = 200
COLUMNS = ("id", "at", "project_id", "kind", "subject_type", "subject_id", "agent_id", "from_state")
MORE = ("to_state", "actor_type", "actor_name", "data")
THREADS_DELETED = 1000
# the columns of a thread with the times of its next messages
STEPS = {"repeat_at": DeliveryRole.REMINDER, "second_at": DeliveryRole.SECOND}
# An id begins with the time of its row's creation. A thread that a rule is opening again is locked.
DELETE_CLOSED = """delete from retries_notificationthread where id = any(array(
    select id from retries_notificationthread t
    where id < %(bound)s and not is_open and closed_at < %(before)s
        and not exists (select from retries_delivery d where d.thread_id = t.id)
    order by id limit %(most)s::int for update skip locked))
returning 1 as one"""


def send_due(*, now: datetime) -> int:
    found = NotificationThread.objects.filter(is_open=True)
    due = [
        (id, step)
        for step in STEPS
        for id in found.filter(**{f"{step}__lte": now}).values_list("pk", flat=True)[:BATCH_SIZE]
    ]
    return sum(send_step(id, step, now=now) for id, step in due)


def delete_closed(*, before: datetime) -> int:
    return len(sql.run(DELETE_CLOSED, bound=first_id(before), before=before, most=THREADS_DELETED))


@transaction.atomic
def send_step(thread_id: UUID, step: str, *, now: datetime) -> bool:
    """Repeat an open thread's message, or notify its second channel; return whether it did."""
    thread = lock_thread(thread_id)
    due = getattr(thread, step) if thread and thread.is_open else None
    if thread is None or due is None or due > now:
        return False
    rule, role = thread.rule, STEPS[step]
    is_reminder = role == DeliveryRole.REMINDER
    channel = rule.channel if is_reminder else rule.second_channel
    setattr(thread, step, later(now, rule.repeat_s) if is_reminder and rule.enabled else None)
    # The first message may still be held back, and its summary comes before a reminder.
    may_send = rule.enabled and (not is_reminder or bool(rule.repeat_s and thread.messages))
    sent = False
    if (thread.repeat_at or not is_reminder) and (until := find_snooze(thread, now)):
        setattr(thread, step, until)
    elif may_send and channel and channel.is_on:
        sent = write(thread, channel, role, now=now)
        if sent and not is_reminder:
            thread.second_told_at = now
    thread.save(update_fields=[*STEPS, "second_told_at", "messages"])
    return sent


def find_snooze(thread: NotificationThread, now: datetime) -> datetime | None:
    if thread.subject_type != "escalation":
        return None
    rows = Escalation.objects.snoozed(now).filter(pk=thread.subject_id)
    return rows.values_list("snoozed_until", flat=True).first()


def lock_thread(thread_id: UUID) -> NotificationThread | None:
    rows = NotificationThread.objects.select_for_update(of=("self",), skip_locked=True)
    return (
        rows.select_related("rule__channel__person", "rule__second_channel__person")
        .filter(pk=thread_id)
        .first()
    )


def write(
    thread: NotificationThread, channel: Channel, role: DeliveryRole, *, now: datetime
) -> bool:
    """Write a delivery about a thread, or postpone it to the end of quiet hours or of a cap."""
    event = newest_event(thread)
    if event is None:
        return False
    rule, about = thread.rule, fetch_subjects([event])
    held = Holding([rule], now=now).held_until(
        rule, channel, severity=about.severity_of(event), is_new=role == DeliveryRole.REMINDER
    )
    if held:
        if role == DeliveryRole.REMINDER:
            thread.repeat_at = max(held, thread.repeat_at or held)
        else:
            thread.second_at = held
        return False
    facts = facts_with_hints(event, about, with_details=channel.include_details)
    facts = replace(facts, age=describe_age(now - thread.opened_at))
    message = replace(
        word_reminder(facts, footer=footer_of(rule, facts)),
        thread=str(thread.pk),
        reply_to=thread.title if role == DeliveryRole.REMINDER else "",
    )
    number = thread.messages + 1
    _, is_new = Delivery.objects.get_or_create(
        channel=channel,
        message_id=f"{role}-{thread.pk}-{int(thread.opened_at.timestamp())}-{number}",
        defaults={
            "rule": rule,
            "thread": thread,
            "role": role,
            "body": asdict(message),
            "state": DeliveryState.PENDING,
            "next_try_at": now,
            "created_at": now,
            **subject_columns(event, about),
        },
    )
    thread.messages += 1
    return is_new


def newest_event(thread: NotificationThread) -> Row | None:
    begins = condition_of(thread.topic.partition(":")[0]).begins
    found: dict[str, Any] | None = (
        Event.objects.about(thread.subject_id)
        .filter(kind__in=begins)
        .order_by("-id")
        .values(*COLUMNS, *MORE)
        .first()
    )
    return found


def describe_age(age: timedelta) -> str:
    """Return how long something has been open.

    >>> describe_age(timedelta(minutes=30)), describe_age(timedelta(hours=3, minutes=5))
    ('30 min', '3 h')
    """
    minutes = max(1, int(age.total_seconds() // 60))
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"
