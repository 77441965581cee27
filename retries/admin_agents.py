"""The admin's pages of agents and their breakers."""

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin
from django.http import HttpRequest

from ledger import agents
from ledger.admin_pages.filters import list_values
from ledger.errors import Refusal
from ledger.journal import stamp_of
from ledger.models import Agent, Breaker
from ledger.states import BreakerState
from retries.verbs import agents as agent_verbs
from retries.verbs.admin import VerbAdmin


def breaker_of(agent: Agent) -> Breaker | None:
    """Return an agent's breaker, which exists from its first failure or trip on."""
    found: Breaker | None = getattr(agent, "breaker", None)
    return found


@admin.register(Breaker)
class BreakerAdmin(VerbAdmin):
    project_path = "agent__project_id"
    list_display = (
        "agent",
        "state",
        "failures",
        "opened_at",
        "kept_open_at",
        "trips",
        "updated_at",
    )
    list_filter = ("state", "agent__project")
    list_select_related = ("agent",)
    search_fields = ("agent__name",)
    verbs = agent_verbs.OF_BREAKER
    links = {
        "Agent": "agent",
        "Attempts": "ledger.Attempt?agent__id__exact={0.agent_id}",
        "Events": "ledger.Event?agent_id__exact={0.agent_id}",
    }

    def name_row(self, row: Breaker) -> str:
        return f"{row.agent}: {row.state}"

    def list_subjects(self, row: Breaker) -> list[UUID]:
        return [row.agent_id]

    def find_page(self, row: Breaker) -> str:
        return f"/agents/{row.agent_id}/"


class NewAgent(forms.ModelForm):  # type: ignore[type-arg]
    """The form that registers an agent."""

    def clean_name(self) -> str:
        try:
            return agents.check_new_name(self.cleaned_data["name"])
        except Refusal as refusal:
            raise forms.ValidationError(refusal.detail) from refusal


@admin.register(Agent)
class AgentAdmin(VerbAdmin):
    list_display = (
        "name",
        "project",
        "paused",
        "breaker_state",
        "concurrency",
        "last_seen_at",
        "created_at",
    )
    list_filter = (
        "paused",
        # an agent without a breaker has a closed one
        list_values("breaker__state", (BreakerState.OPEN, BreakerState.HALF_OPEN), title="breaker"),
        "project",
    )
    list_select_related = ("project", "breaker")
    search_fields = ("name",)
    readonly_fields = ("breaker_state", "last_seen_at", "created_at")
    verbs = agent_verbs.ADMIN
    page = "/agents/{}/"
    links = {
        "Breaker": "breaker",
        "Open escalations": "retries.Escalation?agent__id__exact={0.pk}&state__exact=open",
        "Tasks": "ledger.Task?agent__id__exact={0.pk}",
        "Running attempts": "ledger.Attempt?agent__id__exact={0.pk}&outcome__isnull=True",
        "Attempts": "ledger.Attempt?agent__id__exact={0.pk}",
        "Instructions": "ledger.Instruction?agent__id__exact={0.pk}",
        "Open dead letters": "ledger.DeadLetter?agent__id__exact={0.pk}&closed_at__isnull=True",
        "Events": "ledger.Event?agent_id__exact={0.pk}",
    }

    @admin.display(description="breaker", ordering="breaker__state")
    def breaker_state(self, row: Agent) -> str:
        breaker = breaker_of(row)
        return str(BreakerState(breaker.state if breaker else BreakerState.CLOSED).label)

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
