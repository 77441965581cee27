"""Read the channels and rules of the Notifications page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import Count, F, Max, Min, OuterRef, Q, Subquery

from dashboard.notifications.delivery_queries import concerning
from dashboard.notifications.preview import JournalEvent, Preview, simulate
from ledger.database.optional_cache import get_or_compute_slow
from ledger.models import Event, Project, Task
from retries.models import Channel, Delivery, Escalation, NotificationRule, QuietHours
from retries.models.notification_delivery import DeliveryRole, DeliveryState
from retries.notifications.rules.conditions import condition_of

WEEK = timedelta(days=7)
CHANNELS_SHOWN = 100
RULES_SHOWN = 200
EVENTS_READ = 10_000
TEST_PAUSE = timedelta(seconds=10)
TEST_SHOWN_FOR = timedelta(minutes=10)
UNSENT = (DeliveryState.HELD, DeliveryState.SUMMARIZED, DeliveryState.NOT_SENT)


@dataclass(frozen=True, slots=True)
class ListedChannel:
    """A channel with what the list says beside it."""

    row: Channel
    rules: int
    sent: int
    next_try_at: datetime | None
    test: Delivery | None


@dataclass(frozen=True, slots=True)
class ListedRule:
    """A rule with what it sent in the last week."""

    row: NotificationRule
    sent: int
    held: int
    last_at: datetime | None


def list_channels(project: Project | None, *, now: datetime) -> list[ListedChannel]:
    rows = Channel.objects.filter(concerning(project)).order_by(F("project").asc(), "name")
    used = Count("rules", filter=Q(rules__enabled=True))
    waiting = Delivery.objects.unsettled().filter(channel=OuterRef("pk")).order_by()
    first = waiting.values("channel").annotate(at=Min("next_try_at"))
    rows = rows.annotate(used=used, next_try_at=Subquery(first.values("at")))
    channels: list[Any] = list(rows[:CHANNELS_SHOWN])
    ids = [each.pk for each in channels]
    sent = count_sent("channel", project, ids, now=now)
    tests: dict[UUID, Delivery] = {}
    recent = Delivery.objects.filter(
        channel__in=ids, role=DeliveryRole.TEST, created_at__gte=now - TEST_SHOWN_FOR
    )
    for row in recent.select_related("channel").order_by("id"):
        tests[row.channel_id] = row
    return [
        ListedChannel(
            row=each,
            rules=each.used,
            sent=sent.get(each.pk, (0, 0, None))[0],
            next_try_at=each.next_try_at,
            test=tests.get(each.pk),
        )
        for each in channels
    ]


def list_rules(project: Project | None, *, now: datetime) -> list[ListedRule]:
    related = ("project", "agent", "plan", "channel", "second_channel")
    rows = NotificationRule.objects.filter(concerning(project)).select_related(*related)
    rules = list(rows.order_by("id")[:RULES_SHOWN])
    sent = count_sent("rule", project, [each.pk for each in rules], now=now)
    return [ListedRule(each, *sent.get(each.pk, (0, 0, None))) for each in rules]


Sent = tuple[int, int, datetime | None]


def count_sent(
    by: Literal["channel", "rule"], project: Project | None, ids: Sequence[UUID], *, now: datetime
) -> Mapping[UUID, Sent]:
    """Count what was sent and held back in the last week, with the time of the last message."""

    def count() -> dict[UUID, Sent]:
        found = (
            Delivery.objects.filter(**{f"{by}__in": ids}, created_at__gte=now - WEEK)
            .exclude(role=DeliveryRole.TEST)
            .order_by()
            .values(by)
            .annotate(
                sent=Count("id", filter=~Q(state__in=UNSENT)),
                held=Count("id", filter=Q(state__in=UNSENT)),
                at=Max("created_at", filter=~Q(state__in=UNSENT)),
            )
        )
        return {row[by]: (row["sent"], row["held"], row["at"]) for row in found}

    return get_or_compute_slow(f"sent:{by}:{project.id if project else 'all'}", count)


def count_open_escalations(project: Project | None) -> int:
    return Escalation.objects.open().filter(concerning(project)).count()


def find_quiet_hours(user: AbstractBaseUser | AnonymousUser) -> QuietHours | None:
    return QuietHours.objects.filter(user=user.pk).first()


def find_rule(rule_id: UUID | None) -> NotificationRule | None:
    related = ("project", "agent", "plan", "channel", "second_channel")
    rows = NotificationRule.objects.select_related(*related)
    return rows.filter(pk=rule_id).first() if rule_id else None


def find_channel(channel_id: UUID | None) -> Channel | None:
    return Channel.objects.filter(pk=channel_id).first() if channel_id else None


def fetch_severities(subject_ids: set[UUID]) -> dict[UUID, str]:
    asked = Escalation.objects.filter(pk__in=subject_ids)
    return dict(asked.values_list("pk", "severity"))


def preview_rule(rule: NotificationRule, *, now: datetime) -> Preview:
    kinds = {kind for name in rule.conditions for kind in condition_of(name).kinds}
    rows = Event.objects.since(now - WEEK).filter(kind__in=kinds)
    if rule.project:
        rows = rows.filter(project_id=rule.project.pk)
    if rule.agent:
        rows = rows.filter(agent_id=rule.agent.pk)
    if rule.plan:
        tasks = Task.objects.filter(plan=rule.plan).values("pk")
        asked = Escalation.objects.filter(task__plan=rule.plan).values("pk")
        rows = rows.filter(
            Q(subject_id=rule.plan.pk) | Q(subject_id__in=tasks) | Q(subject_id__in=asked)
        )
    if rule.severity:
        severe = Escalation.objects.filter(severity=rule.severity).values("pk")
        rows = rows.filter(subject_id__in=severe)
    # Only the newest events are read; `is_partial` says if there are more.
    newest = list(rows.order_by("-at").values_list("at", "kind", "subject_id")[: EVENTS_READ + 1])
    severities: dict[UUID, str] = {}
    if rule.quiet_from is not None:  # only quiet hours depend on it
        severities = fetch_severities({subject_id for _, _, subject_id in newest})
    events = [JournalEvent(*row, severities.get(row[2], "")) for row in newest]
    preview = simulate(rule, events[:EVENTS_READ][::-1], now=now)
    preview.is_partial = len(events) > EVENTS_READ
    return preview
