"""The admin of the ledger: read-only, with actions that call the public functions."""

from collections.abc import Iterator
from typing import Any, ClassVar
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.apps import apps
from django.contrib import admin, messages
from django.contrib.admin.helpers import ActionForm
from django.db.models import QuerySet
from django.http import HttpRequest

from ledger import admin_effects, agents, journal, tokens
from ledger import admin_records as _records  # noqa: F401 - registers its models
from ledger.admin_details import Link
from ledger.admin_lists import ReadOnly, cut
from ledger.confirmation import confirm
from ledger.errors import Refusal
from ledger.journal import Kind, stamp_of
from ledger.models import (
    Agent,
    Attempt,
    DeadLetter,
    Event,
    Instruction,
    Project,
    StandingInstruction,
    Task,
    Token,
)
from ledger.models.standing_instruction import StandingInstructionQuerySet
from ledger.sessions import admin as _sessions  # noqa: F401 - registers its models
from ledger.standing_instructions import editing

# the lists of a project's rows, by their labels
OF_PROJECT = {
    "Agents": "ledger.Agent",
    "Tasks": "ledger.Task",
    "Plans": "ledger.Plan",
    "Instructions": "ledger.Instruction",
    "Sessions": "ledger.Session",
    "Tokens": "ledger.Token",
    "Escalations": "retries.Escalation",
    "Dead letters": "ledger.DeadLetter",
    "Patterns": "retries.FailurePattern",
    "Channels": "retries.Channel",
}


@admin.register(Project)
class ProjectAdmin(ReadOnly):
    list_display = ("name", "created_at")
    search_fields = ("name",)

    def get_readonly_fields(
        self, request: HttpRequest, obj: Project | None = None
    ) -> tuple[str, ...]:
        return ("created_at",) if obj else ()

    def list_links(self, request: HttpRequest, row: Project) -> Iterator[Link]:
        for label, model in OF_PROJECT.items():
            yield from self.link_to_list(
                request, label, apps.get_model(model), project__id__exact=row.pk
            )
        yield from self.link_to_list(request, "Events", Event, subject_id__exact=row.pk)

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


class AgentForm(ActionForm):
    """The inputs of the actions 'Limit' and 'Brief'."""

    # text, because the admin shows no errors of an action form
    concurrency = forms.CharField(required=False, label="Maximum concurrent attempts for 'Limit'")
    system_text = forms.CharField(
        required=False, label="System text for 'Brief'", widget=forms.Textarea({"rows": 1})
    )
    inputs = {"concurrency": ("limit",), "system_text": ("brief",)}


@admin.register(Agent)
class AgentAdmin(ReadOnly):
    list_display: tuple[str, ...] = (
        "name",
        "project",
        "paused",
        "concurrency",
        "last_seen_at",
        "created_at",
    )
    list_filter: ClassVar[tuple[Any, ...]] = ("paused", "project")
    list_select_related: ClassVar[tuple[str, ...]] = ("project",)
    search_fields = ("name",)
    readonly_fields: ClassVar[tuple[str, ...]] = ("last_seen_at", "created_at")
    action_form = AgentForm
    actions: tuple[str, ...] = ("pause", "resume", "limit", "brief", "reset")
    narrow = {
        "pause": lambda rows: rows.filter(paused=False),
        "resume": lambda rows: rows.filter(paused=True),
        "reset": lambda rows: rows.filter(pk__in=cancellable_of(rows)),
    }
    page = "/agents/{}/"

    def list_links(self, request: HttpRequest, row: Agent) -> Iterator[Link]:
        of, live = {"agent__id__exact": row.pk}, {"outcome__isnull": True}
        yield from self.link_to_list(request, "Tasks", Task, **of)
        yield from self.link_to_list(request, "Running attempts", Attempt, **of, **live)
        yield from self.link_to_list(request, "Attempts", Attempt, **of)
        yield from self.link_to_list(request, "Instructions", Instruction, **of)
        yield from self.link_to_list(
            request, "Open dead letters", DeadLetter, **of, closed_at__isnull=True
        )
        yield from self.link_to_list(request, "Events", Event, agent_id__exact=row.pk)

    @admin.action(description="Pause: stop handing out tasks")
    def pause(self, request: HttpRequest, chosen: QuerySet[Agent]) -> None:
        changed = agents.pause(chosen, stamp=stamp_of(request))
        self.report_changes(request, len(changed), "paused")

    @admin.action(description="Resume")
    def resume(self, request: HttpRequest, chosen: QuerySet[Agent]) -> None:
        changed = agents.pause(chosen, paused=False, stamp=stamp_of(request))
        self.report_changes(request, len(changed), "resumed")

    @admin.action(description="Limit concurrent attempts (empty: no limit)")
    def limit(self, request: HttpRequest, chosen: QuerySet[Agent]) -> None:
        asked = request.POST.get("concurrency", "").strip()
        most = None if not asked else int(asked) if asked.isdecimal() and len(asked) < 9 else 0
        try:
            changed = agents.limit(chosen, concurrency=most, stamp=stamp_of(request))
        except Refusal as refusal:
            self.message_user(request, refusal.detail, messages.ERROR)
            return
        self.report_changes(request, len(changed), "limited" if asked else "no longer limited")

    @admin.action(description="Brief: set the system text (empty: none)")
    @confirm(admin_effects.brief_agents)
    def brief(self, request: HttpRequest, chosen: QuerySet[Agent]) -> None:
        text = request.POST.get("system_text", "")
        try:
            changed = agents.brief(chosen, system_text=text, stamp=stamp_of(request))
        except Refusal as refusal:
            self.message_user(request, refusal.detail, messages.ERROR)
            return
        self.report_changes(request, len(changed), "briefed")

    @admin.action(description="Reset: cancel all unsettled instructions")
    @confirm(admin_effects.reset_agents)
    def reset(self, request: HttpRequest, chosen: QuerySet[Agent]) -> None:
        cancelled = sum(agents.reset(each, stamp=stamp_of(request)) for each in chosen)
        self.report_changes(request, cancelled, "instructions cancelled")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.may(request, "add")

    def get_form(
        self, request: HttpRequest, obj: Agent | None = None, change: bool = False, **more: Any
    ) -> Any:
        new = {} if obj else {"form": NewAgent, "fields": ("project", "name")}
        return super().get_form(request, obj, change, **more | new)

    def get_fields(self, request: HttpRequest, obj: Agent | None = None) -> Any:
        return super().get_fields(request, obj) if obj else ("project", "name")

    def save_model(self, request: HttpRequest, obj: Agent, form: Any, change: bool) -> None:
        obj.pk = agents.register(obj.name, project=obj.project, stamp=stamp_of(request)).pk


def cancellable_of(rows: QuerySet[Agent]) -> Any:
    return Instruction.objects.filter(agent__in=rows).cancellable().values("agent")


class NewAgent(forms.ModelForm):  # type: ignore[type-arg]
    """The form that registers an agent."""

    def clean_name(self) -> str:
        try:
            return agents.check_new_name(self.cleaned_data["name"])
        except Refusal as refusal:
            raise forms.ValidationError(refusal.detail) from refusal


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
    list_select_related = ("project", "agent")
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

    def get_fields(self, request: HttpRequest, obj: Token | None = None) -> tuple[str, ...]:
        return (*self.fields, *self.shown_fields) if obj else self.fields

    def get_readonly_fields(
        self, request: HttpRequest, obj: Token | None = None
    ) -> tuple[str, ...]:
        return self.shown_fields if obj else ()

    def find_page(self, row: Token) -> str:
        return "/settings/tokens/"

    def list_links(self, request: HttpRequest, row: Token) -> Iterator[Link]:
        yield from self.link_to_row(request, "Agent", row.agent)
        yield from self.link_to_list(request, "Events", Event, subject_id__exact=row.pk)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.may(request, "add")

    def save_model(self, request: HttpRequest, obj: Token, form: Any, change: bool) -> None:
        """Issue a token and show its secret once."""
        token, secret = tokens.issue(
            obj.kind, project=obj.project, agent=obj.agent, name=obj.name, stamp=stamp_of(request)
        )
        obj.pk, obj.prefix = token.pk, token.prefix
        self.message_user(
            request, f"Copy the token now. It is not shown again: {secret}", messages.WARNING
        )

    @admin.action(description="Revoke…")
    @confirm(admin_effects.revoke_tokens)
    def revoke(self, request: HttpRequest, chosen: QuerySet[Token]) -> None:
        stamp = stamp_of(request)
        changed = sum([tokens.revoke(token, stamp=stamp) for token in chosen])
        self.report_changes(request, changed, "revoked")


@admin.register(StandingInstruction)
class StandingInstructionAdmin(ReadOnly):
    list_display = ("start", "project", "agent", "event", "state", "hold_stop", "activated_at")
    list_filter = ("paused", "event", "hold_stop", "project")
    list_select_related = ("agent", "project")
    search_fields = ("content", "signal_type", "agent__name")
    ordering = ("-id",)
    actions: tuple[str, ...] = ("pause", "resume", "retire")
    narrow = {
        "pause": lambda rows: rows.current().filter(paused=False),
        "resume": lambda rows: rows.current().filter(paused=True),
        "retire": lambda rows: rows.current(),
    }
    page = "/instructions/standing/{}/"

    @admin.display(description="rule")
    def start(self, row: StandingInstruction) -> str:
        return cut(row.content)

    def list_links(self, request: HttpRequest, row: StandingInstruction) -> Iterator[Link]:
        yield from self.link_to_list(
            request, "Its instructions", Instruction, rule__id__exact=row.pk
        )
        yield from self.link_to_list(request, "Events", Event, subject_id__exact=row.pk)

    @admin.action(description="Pause: send nothing until it is resumed")
    def pause(self, request: HttpRequest, chosen: StandingInstructionQuerySet) -> None:
        changed = editing.pause_rules(ids_of(chosen), stamp=stamp_of(request))
        self.report_changes(request, len(changed), "paused")

    @admin.action(description="Resume")
    def resume(self, request: HttpRequest, chosen: StandingInstructionQuerySet) -> None:
        changed = editing.resume_rules(ids_of(chosen), stamp=stamp_of(request))
        self.report_changes(request, len(changed), "switched on")

    @admin.action(description="Retire…")
    @confirm(admin_effects.retire_rules)
    def retire(self, request: HttpRequest, chosen: StandingInstructionQuerySet) -> None:
        changed = editing.retire_rules(ids_of(chosen), stamp=stamp_of(request))
        self.report_changes(request, len(changed), "retired")


def ids_of(chosen: QuerySet[Any]) -> list[UUID]:
    return list(chosen.order_by().values_list("pk", flat=True))
