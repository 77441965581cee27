"""The admin's pages of escalation policies and rotas, which the On call page changes."""

from django.contrib import admin

from ledger.admin_pages.lists import ReadOnly
from retries.models import EscalationPolicy, Rota

PAGE = "/settings/on-call/"


@admin.register(EscalationPolicy)
class EscalationPolicyAdmin(ReadOnly):
    list_display = ("name", "project", "position", "conditions", "answer_within_s", "enabled")
    list_filter = ("enabled", "project")
    search_fields = ("name", "conditions")
    page = PAGE
    links = {
        "Escalations": "retries.Escalation?policy__id__exact={0.pk}",
        "Events": "ledger.Event?subject_id__exact={0.pk}",
    }


@admin.register(Rota)
class RotaAdmin(ReadOnly):
    list_display = ("name", "project", "timezone", "changed_by_name", "updated_at")
    list_filter = ("project",)
    search_fields = ("name",)
    page = PAGE
    links = {"Events": "ledger.Event?subject_id__exact={0.pk}"}
