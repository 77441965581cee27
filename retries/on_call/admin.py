"""The admin's pages of escalation policies and rotas, which the On call page changes."""

from django.contrib import admin

from ledger.admin_pages.lists import ReadOnly
from retries.models import EscalationPolicy, Rota

PAGE = "/settings/on-call/"


@admin.register(EscalationPolicy)
class EscalationPolicyAdmin(ReadOnly):
    list_display = ("name", "project", "position", "conditions", "answer_within_s", "enabled")
    list_filter = ("enabled", "project")
    list_select_related = ("project",)
    search_fields = ("name", "conditions")
    ordering = ("-id",)
    links = {
        "Escalations": "retries.Escalation?policy__id__exact={0.pk}",
        "Events": "ledger.Event?subject_id__exact={0.pk}",
    }

    def find_page(self, row: EscalationPolicy) -> str:
        return PAGE


@admin.register(Rota)
class RotaAdmin(ReadOnly):
    list_display = ("name", "project", "timezone", "changed_by_name", "updated_at")
    list_filter = ("project",)
    list_select_related = ("project",)
    search_fields = ("name",)
    ordering = ("-id",)
    links = {"Events": "ledger.Event?subject_id__exact={0.pk}"}

    def find_page(self, row: Rota) -> str:
        return PAGE
