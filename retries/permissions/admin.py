"""The admin's pages of permission requests and rules."""

from collections.abc import Iterator

from django.contrib import admin
from django.http import HttpRequest

from ledger.admin_pages.details import Link
from ledger.admin_pages.filters import list_values
from ledger.admin_pages.lists import ReadOnly, cut
from ledger.models import Event
from retries.models import Escalation, PermissionRequest, PermissionRule
from retries.states import PermissionState, RuleState
from retries.verbs import permission_rules
from retries.verbs.admin import VerbAdmin


@admin.register(PermissionRequest)
class PermissionRequestAdmin(ReadOnly):
    list_display = ("asked_at", "tool", "call", "agent", "state", "taken_at", "closed_at")
    list_filter = (list_values("state", PermissionState.values), "agent", "project")
    list_select_related = ("agent",)
    search_fields = ("title", "tool", "agent__name")
    ordering = ("-id",)

    @admin.display(description="Call")
    def call(self, request: PermissionRequest) -> str:
        return cut(request.title)

    def list_links(self, request: HttpRequest, row: PermissionRequest) -> Iterator[Link]:
        asked = Escalation.objects.filter(permission=row).first()
        yield from self.link_to_row(request, "Escalation", asked)
        yield from self.link_to_row(request, "Task", row.task)
        yield from self.link_to_list(request, "Events", Event, subject_id__exact=row.pk)


@admin.register(PermissionRule)
class PermissionRuleAdmin(VerbAdmin):
    list_display = (
        "__str__",
        "project",
        "agent",
        "state",
        "hits",
        "last_used_at",
        "expires_at",
        "created_by_name",
    )
    list_filter = (list_values("state", RuleState.values), "allows", "agent", "project")
    list_select_related = ("agent", "project")
    search_fields = ("tool", "matcher")
    ordering = ("-id",)
    verbs = permission_rules.VERBS
    page = "/settings/permissions/{}/"

    links = {"Events": "ledger.Event?subject_id__exact={0.pk}"}
