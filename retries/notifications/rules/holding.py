"""Decide how long a message is held back: by a cap per hour, or by quiet hours."""

from collections.abc import Iterable
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
        """Return when a message may go out, or None for now; count one that may."""
        breaks = severity == SEVERE and rule.severe_breaks_quiet
        quiet = None if breaks else self.quiet_until(rule, channel)
        capped = self.capped_until(rule) if is_new else None
        held = max(filter(None, (quiet, capped)), default=None)
        if held is None and is_new and rule.pk in self.sent:
            self.sent[rule.pk].append(self.now)
        return held

    def quiet_until(self, rule: NotificationRule, channel: Channel) -> datetime | None:
        """Return when the quiet hours of a rule and of a channel's person end, or None."""
        ends = []
        if rule.quiet_from is not None and rule.quiet_until is not None:
            ends.append(
                quiet_end(
                    self.now,
                    starts=rule.quiet_from,
                    ends=rule.quiet_until,
                    timezone=rule.timezone,
                )
            )
        person = self.people.get(channel.person_id) if channel.person_id else None
        if person:
            ends.append(
                quiet_end(
                    self.now, starts=person.starts, ends=person.ends, timezone=person.timezone
                )
            )
        return max(filter(None, ends), default=None)

    def capped_until(self, rule: NotificationRule) -> datetime | None:
        """Return when the cap of a rule allows another message, or None for now."""
        sent = self.sent.get(rule.pk)
        cap = rule.cap_per_hour
        if sent is None or cap is None or len(sent) < cap:
            return None
        return sent[-cap] + HOUR
