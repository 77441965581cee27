"""The admin of the ledger: read-only, with actions that call the public functions."""

from typing import Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from ledger import journal, tokens
from ledger.admin_pages import records as _records  # noqa: F401 - registers its models
from ledger.admin_pages.confirmation import confirm, list_effects
from ledger.admin_pages.lists import ReadOnly
from ledger.journal import Kind, stamp_of
from ledger.models import Project, Token
from ledger.sessions import admin as _sessions  # noqa: F401 - registers its models
from ledger.values.text import counted

# the lists of a project's rows, by their labels
OF_PROJECT = {
    "Agents": "ledger.Agent?project__id__exact={0.pk}",
    "Tasks": "ledger.Task?project__id__exact={0.pk}",
    "Plans": "ledger.Plan?project__id__exact={0.pk}",
    "Instructions": "ledger.Instruction?project__id__exact={0.pk}",
    "Sessions": "ledger.Session?project__id__exact={0.pk}",
    "Tokens": "ledger.Token?project__id__exact={0.pk}",
    "Escalations": "retries.Escalation?project__id__exact={0.pk}",
    "Permission rules": "retries.PermissionRule?project__id__exact={0.pk}",
    "Dead letters": "ledger.DeadLetter?project__id__exact={0.pk}",
    "Patterns": "retries.FailurePattern?project__id__exact={0.pk}",
    "Channels": "retries.Channel?project__id__exact={0.pk}",
    "Events": "ledger.Event?subject_id__exact={0.pk}",
}


@admin.register(Project)
class ProjectAdmin(ReadOnly):
    list_display = ("name", "created_at")
    search_fields = ("name",)
    links = OF_PROJECT

    def get_readonly_fields(
        self, request: HttpRequest, obj: Project | None = None
    ) -> tuple[str, ...]:
        return ("created_at",) if obj else ()

    def find_page(self, row: Project) -> str:
        return f"/?{urlencode({'project': row.name})}"

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.may(request, "add")

    def save_model(self, request: HttpRequest, obj: Project, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        journal.record(
            Kind.PROJECT_CREATED,
            subject_type="project",
            subject_id=obj.pk,
            project_id=obj.pk,
            stamp=stamp_of(request),
            data={"name": obj.name},
        )


def describe_revocation(request: HttpRequest, chosen: QuerySet[Token]) -> list[str]:
    number = chosen.filter(revoked_at=None).count()
    return list_effects((number, f"{counted(number, 'token')} will stop working at once."))


@admin.register(Token)
class TokenAdmin(ReadOnly):
    list_display = (
        "name",
        "kind",
        "project",
        "agent",
        "prefix",
        "expires_at",
        "last_used_at",
        "revoked_at",
    )
    list_filter = ("kind", "project")
    search_fields = ("name", "prefix")
    fields = ("kind", "project", "agent", "name")
    shown_fields = (
        "prefix",
        "scopes",
        "created_by",
        "created_at",
        "expires_at",
        "first_used_at",
        "last_used_at",
        "revoked_at",
    )
    actions = ("revoke",)
    narrow = {"revoke": lambda rows: rows.filter(revoked_at=None)}
    page = "/settings/tokens/"
    links = {"Agent": "agent", "Events": "ledger.Event?subject_id__exact={0.pk}"}

    def get_fields(self, request: HttpRequest, obj: Token | None = None) -> tuple[str, ...]:
        return (*self.fields, *self.shown_fields) if obj else self.fields

    def get_readonly_fields(
        self, request: HttpRequest, obj: Token | None = None
    ) -> tuple[str, ...]:
        return self.shown_fields if obj else ()

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.may(request, "add")

    def save_model(self, request: HttpRequest, obj: Token, form: Any, change: bool) -> None:
        token, secret = tokens.issue(
            obj.kind, project=obj.project, agent=obj.agent, name=obj.name, stamp=stamp_of(request)
        )
        obj.pk, obj.prefix = token.pk, token.prefix
        self.message_user(
            request, f"Copy the token now. It is not shown again: {secret}", messages.WARNING
        )

    @admin.action(description="Revoke…")
    @confirm(describe_revocation)
    def revoke(self, request: HttpRequest, chosen: QuerySet[Token]) -> None:
        stamp = stamp_of(request)
        changed = sum([tokens.revoke(token, stamp=stamp) for token in chosen])
        self.report_changes(request, changed, "revoked")
