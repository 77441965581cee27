"""The admin's pages of notifications: channels, rules and deliveries, without any secret."""

from collections.abc import Iterator
from uuid import UUID

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from ledger.admin_pages.details import Link
from ledger.admin_pages.lists import ReadOnly
from ledger.database import server_time
from ledger.models import Event
from retries.models import Channel, Delivery, NotificationRule, QuietHours
from retries.notifications.deliveries import redelivery

PAGE = "/settings/notifications/"
OF_CHANNEL = "retries.Delivery?channel__id__exact={0.pk}"


@admin.register(Channel)
class ChannelAdmin(ReadOnly):
    list_display = (
        "name",
        "service",
        "shown_address",
        "project",
        "state",
        "disabled_because",
        "failures",
        "succeeded_at",
    )
    list_filter = ("kind", "state", "project")
    search_fields = ("name", "service", "shown_address")
    exclude = ("address", "signing_secrets", "sender")
    page = PAGE
    links = {
        "Deliveries": OF_CHANNEL,
        "Deliveries that were given up": f"{OF_CHANNEL}&state__exact=gave_up",
        "Rules": "retries.NotificationRule?channel__id__exact={0.pk}",
        "Events": "ledger.Event?subject_id__exact={0.pk}",
    }


@admin.register(NotificationRule)
class NotificationRuleAdmin(ReadOnly):
    list_display = (
        "named_conditions",
        "project",
        "channel",
        "cap_per_hour",
        "repeat_s",
        "second_channel",
        "enabled",
    )
    list_filter = ("enabled", "project")
    json_columns = ("conditions",)
    page = PAGE
    links = {
        "Channel": "channel",
        "Second channel": "second_channel",
        "Deliveries": "retries.Delivery?rule__id__exact={0.pk}",
    }

    @admin.display(description="Conditions")
    def named_conditions(self, rule: NotificationRule) -> str:
        return ", ".join(rule.conditions)


@admin.register(Delivery)
class DeliveryAdmin(ReadOnly):
    list_display = (
        "created_at",
        "kind",
        "role",
        "title",
        "channel",
        "state",
        "tries",
        "code",
        "latency_ms",
        "error",
    )
    list_filter = ("state", "role", "channel")
    search_fields = ("message_id", "title", "kind")
    page = "/settings/deliveries/?open={0.pk}"
    actions = ("redeliver",)

    def name_row(self, row: Delivery) -> str:
        return f"{row.kind} to {row.channel}"

    def list_subjects(self, row: Delivery) -> list[UUID]:
        return [row.subject_id] if row.subject_id else []

    def list_links(self, request: HttpRequest, row: Delivery) -> Iterator[Link]:
        event = Event.objects.filter(pk=row.event_id).first() if row.event_id else None
        yield from self.link_to_row(request, "Event", event)
        yield from self.link_to_row(request, "Channel", row.channel)
        yield from self.link_to_row(request, "Rule", row.rule)
        yield from self.link_to_row(request, "Summary", row.summary)

    @admin.action(description="Redeliver: send again with the same id")
    def redeliver(self, request: HttpRequest, chosen: QuerySet[Delivery]) -> None:
        ids = chosen.exclude(channel__state="disabled").values_list("pk", flat=True)
        count = redelivery.make_due(
            Delivery.objects.filter(pk__in=list(ids)), now=server_time.now()
        )
        self.report_changes(request, count, "redelivered")


@admin.register(QuietHours)
class QuietHoursAdmin(ReadOnly):
    list_display = ("user", "starts", "ends", "timezone")
