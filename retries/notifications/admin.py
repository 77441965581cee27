"""The admin's pages of notifications: channels, rules and deliveries, without any secret."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from ledger.admin_lists import ReadOnly
from retries.models import Channel, Delivery, NotificationRule, QuietHours
from retries.notifications import redelivery


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
    list_filter = ("kind", "state", "service", "project")
    list_select_related = ("project",)
    search_fields = ("name", "shown_address")
    exclude = ("address", "signing_secrets", "sender")
    ordering = ("-id",)


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
    list_select_related = ("project", "channel", "second_channel")
    ordering = ("-id",)

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
    list_select_related = ("channel",)
    search_fields = ("message_id", "title", "kind")
    ordering = ("-id",)
    actions = ("redeliver",)

    @admin.action(description="Redeliver: send again with the same id")
    def redeliver(self, request: HttpRequest, chosen: QuerySet[Delivery]) -> None:
        ids = chosen.exclude(channel__state="disabled").values_list("pk", flat=True)
        count = redelivery.make_due(Delivery.objects.filter(pk__in=list(ids)), now=timezone.now())
        self.report_changes(request, count, "redelivered")


@admin.register(QuietHours)
class QuietHoursAdmin(ReadOnly):
    list_display = ("user", "starts", "ends", "timezone")
    list_select_related = ("user",)
