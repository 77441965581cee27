"""Send what was held back as one message for each rule and channel."""

from dataclasses import asdict
from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.db import transaction

from ledger.models import Agent, Project
from retries.models import Channel, Delivery, NotificationRule
from retries.models.notification_delivery import DeliveryRole, DeliveryState
from retries.notifications.messages.wording import Facts, Message, word_summary
from retries.notifications.rules.batch import footer_of

MOST_READ = 200


def send_summaries(*, now: datetime) -> int:
    due = Delivery.objects.filter(state=DeliveryState.HELD, held_until__lte=now)
    pairs = due.order_by().values_list("rule", "channel").distinct()[:100]
    return sum(send_summary(rule, channel, now=now) for rule, channel in pairs)


@transaction.atomic
def send_summary(rule_id: UUID | None, channel_id: UUID, *, now: datetime) -> bool:
    channel = Channel.objects.select_for_update(of=("self",)).get(pk=channel_id)
    held = Delivery.objects.filter(state=DeliveryState.HELD, rule=rule_id, channel=channel)
    rule = NotificationRule.objects.filter(pk=rule_id).first() if rule_id else None
    if rule is None or not channel.is_on:
        held.update(state=DeliveryState.NOT_SENT, held_until=None)
        return False
    total = held.count()
    if not total:
        return False
    first = held.order_by("id").first()
    assert first is not None
    closed = held.filter(thread__is_open=False).count()
    message = word(rule, list(held.order_by("id")[:MOST_READ]), total=total, closed=closed)
    summary, _ = Delivery.objects.get_or_create(
        channel=channel,
        message_id=f"sum-{first.pk}",
        defaults={
            "rule": rule,
            "project_id": first.project_id,
            "kind": "summary",
            "role": DeliveryRole.SUMMARY,
            "title": message.subject[:200],
            "body": asdict(message),
            "state": DeliveryState.PENDING,
            "next_try_at": now,
            "created_at": now,
        },
    )
    held.update(state=DeliveryState.SUMMARIZED, held_until=None, summary=summary)
    return True


def word(rule: NotificationRule, held: list[Delivery], *, total: int, closed: int) -> Message:
    # All subjects are looked up at once.
    agents = dict(
        Agent.objects.filter(pk__in={each.agent_id for each in held}).values_list("pk", "name")
    )
    projects = dict(
        Project.objects.filter(pk__in={each.project_id for each in held}).values_list("pk", "name")
    )
    many = [
        Facts(
            kind=each.kind,
            project=projects.get(each.project_id, "") if each.project_id else "",
            agent=agents.get(each.agent_id, "") if each.agent_id else "",
            title=each.title,
        )
        for each in held
    ]
    because = (
        f"Held back: the rule sends {rule.cap_per_hour} an hour."
        if rule.cap_per_hour
        else "Held back during quiet hours."
    )
    page = "escalations" if any(each.kind.startswith("escalation") for each in held) else "activity"
    return word_summary(
        many,
        total=total,
        closed=closed,
        because=because,
        url=f"{settings.LINK_URL}/{page}/",
        footer=footer_of(rule, many[0]),
    )
