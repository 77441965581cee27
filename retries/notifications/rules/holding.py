"""Decide how long a message is held back: by a cap per hour, or by quiet hours."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from retries.models import Channel, Delivery, NotificationRule, QuietHours
from retries.models.notification_delivery import DeliveryRole, DeliveryState
from retries.notifications.rules.quiet_hours import quiet_end

HOUR = timedelta(hours=1)
SEVERE = "high"
# what a cap counts: answers and other replies always go through
COUNTED = (DeliveryRole.NEW, DeliveryRole.REMINDER, DeliveryRole.SUMMARY)


class Holding:
    """The quiet hours of people, and what rules have sent in the last hour."""

    def __init__(self, rules: Iterable[NotificationRule], *, now: datetime) -> None:
        self.now = now
        rules = list(rules)
        people = {
            channel.person_id
            for rule in rules
            for channel in (rule.channel, rule.second_channel)
            if channel and channel.person_id
        }
        self.people = {each.user_id: each for each in QuietHours.objects.filter(user__in=people)}
        self.sent: dict[UUID, list[datetime]] = {rule.pk: [] for rule in rules if rule.cap_per_hour}
        rows = Delivery.objects.filter(
            rule__in=self.sent, created_at__gt=now - HOUR, role__in=COUNTED
        ).exclude(state__in=(DeliveryState.HELD, DeliveryState.SUMMARIZED))
        for rule_id, at in rows.order_by("created_at").values_list("rule", "created_at"):
            self.sent[rule_id].append(at)

    def held_until(
        self, rule: NotificationRule, channel: Channel, *, severity: str, is_new: bool
    ) -> datetime | None:
        """Return when a message may go out; count it and return None if that is now."""
        breaks = severity == SEVERE and rule.severe_breaks_quiet
        quiet = None if breaks else self.quiet_until(rule, channel)
        capped = self.capped_until(rule) if is_new else None
        held = max(filter(None, (quiet, capped)), default=None)
        if held is None and is_new and rule.pk in self.sent:
            self.sent[rule.pk].append(self.now)
        return held

    def quiet_until(self, rule: NotificationRule, channel: Channel) -> datetime | None:
        person = self.people.get(channel.person_id) if channel.person_id else None
        ends = [quiet_end_of(rule, self.now)]
        if person:
            zone = person.timezone
            ends.append(quiet_end(self.now, starts=person.starts, ends=person.ends, timezone=zone))
        return max(filter(None, ends), default=None)

    def capped_until(self, rule: NotificationRule) -> datetime | None:
        return cap_end(rule, self.sent.get(rule.pk, []))


def quiet_end_of(rule: NotificationRule, at: datetime) -> datetime | None:
    return quiet_end(at, starts=rule.quiet_from, ends=rule.quiet_until, timezone=rule.timezone)


def cap_end(rule: NotificationRule, sent: Sequence[datetime]) -> datetime | None:
    cap = rule.cap_per_hour
    return sent[-cap] + HOUR if cap and len(sent) >= cap else None
