"""The admin's pages of retries: tasks, plans, dead letters, policies, agents, and breakers."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

from ledger import agents
from ledger.admin_pages.details import Link
from ledger.admin_pages.filters import list_values
from ledger.admin_pages.lists import ReadOnly, WithErrors, cut, name_task
from ledger.authorization.permissions import may
from ledger.errors import Refusal
from ledger.journal import stamp_of
from ledger.models import (
    Agent,
    Breaker,
    DeadLetter,
    Event,
    Instruction,
    Plan,
    StandingInstruction,
    Task,
)
from ledger.states import BlockedReason, BreakerState
from retries.escalations import admin as _escalations  # noqa: F401 - registers its page
from retries.failures import admin as _failures  # noqa: F401 - registers its pages
from retries.models import Escalation, PermissionRequest, PermissionRule, RetryPolicy
from retries.on_call import admin as _on_call  # noqa: F401 - registers its pages
from retries.operations import admin as _operations  # noqa: F401 - registers its page
from retries.policies.editing import record_change
from retries.states import PermissionState, Reason, RuleState
from retries.verbs import agents as agent_verbs
from retries.verbs import dead_letters, instructions, permission_rules, plans, rules, tasks
from retries.verbs.admin import VerbAdmin


@admin.register(Task)
class TaskAdmin(WithErrors, VerbAdmin):
    list_display = ("__str__", "agent", "state", "error", "retry_count", "updated_at")
    list_filter = (
        "state",
        list_values("blocked_reason", BlockedReason.values),
        "on_exhausted",
        "agent",
        "project",
    )
    search_fields = ("agent__name",)
    task_path = "pk"
    verbs = tasks.PAGE
    page = "/tasks/{0.pk}/"

    links = {
        "Attempts": "ledger.Attempt?task__id__exact={0.pk}",
        "Failures": "ledger.Failure?task__id__exact={0.pk}",
        "Escalations": "retries.Escalation?task__id__exact={0.pk}",
        "States": "ledger.TaskHistory?task__id__exact={0.pk}",
        "Events": "ledger.Event?subject_id__exact={0.pk}",
    }

    def list_links(self, request: HttpRequest, row: Task) -> Iterator[Link]:
        asked = Escalation.objects.open().filter(task=row).order_by("id").first()
        yield from self.link_to_row(request, "Open question", asked)
        letter = DeadLetter.objects.filter(task=row).order_by("id").first()
        yield from self.link_to_row(request, "Dead letter", letter)
        yield from super().list_links(request, row)


@admin.register(Plan)
class PlanAdmin(VerbAdmin):
    list_display = (
        "ref",
        "title",
        "project",
        "current_state",
        "run",
        "created_by_name",
        "updated_at",
    )
    list_filter = ("project",)
    search_fields = ("ref", "title")
    verbs = plans.VERBS
    page = "/plans/{0.pk}/"

    links = {
        "Tasks": "ledger.Task?plan__id__exact={0.pk}",
        "Failed tasks": "ledger.Task?plan__id__exact={0.pk}&state__exact=failed",
        "Events": "ledger.Event?subject_id__exact={0.pk}",
    }

    @admin.display(description="state")
    def current_state(self, row: Plan) -> str:
        return row.state


@admin.register(DeadLetter)
class DeadLetterAdmin(VerbAdmin):
    list_display = ("failed_at", "about", "agent", "error", "reason", "retry_count", "closed_as")
    list_filter = (
        list_values("closed_as", ("replayed", "dismissed"), null="open"),
        list_values("reason", Reason.values),
        "project",
    )
    list_select_related = ("agent", "task")
    search_fields = ("agent__name", "error")
    task_path = "task"
    verbs = dead_letters.VERBS
    page = "/dead-letters/{0.pk}/"
    links = {
        "Task": "task",
        "Attempts": "ledger.Attempt?task__id__exact={0.task_id}",
        "Failures": "ledger.Failure?task__id__exact={0.task_id}",
        "Events": "ledger.Event?subject_id__exact={0.task_id}",
    }

    @admin.display(description="task")
    def about(self, row: DeadLetter) -> str:
        return cut(name_task(row.task))

    def name_row(self, row: DeadLetter) -> str:
        return name_task(row.task)

    def list_subjects(self, row: DeadLetter) -> list[UUID]:
        return [row.task_id]


@admin.register(RetryPolicy)
class RetryPolicyAdmin(ReadOnly):
    """The policies of each project, which can be edited."""

    list_display = ("project", "ask_at_once", "obey_waits", "ask_on_same_failure", "evidence")
    search_fields = ("project__name",)
    page = "/settings/policies/"
    links = {"Project": "project", "Events": "ledger.Event?subject_id__exact={0.project_id}"}

    def list_subjects(self, row: RetryPolicy) -> list[UUID]:
        return [row.project_id]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.may(request, "add")

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return may(request.user, self.verb_of("change"))

    def get_readonly_fields(
        self, request: HttpRequest, obj: Model | None = None
    ) -> tuple[str, ...]:
        return ("project",) if obj else ()

    def save_model(self, request: HttpRequest, obj: RetryPolicy, form: Any, change: bool) -> None:
        obj.version += change  # a form that was read before is refused by the API
        super().save_model(request, obj, form, change)
        changed = {name: form.cleaned_data[name] for name in form.changed_data if name != "project"}
        record_change(obj, changed, stamp=stamp_of(request))


@admin.register(Instruction)
class InstructionAdmin(VerbAdmin):
    list_display = ("start", "agent", "state", "urgency", "retry_count", "max_retries", "queued_at")
    list_filter = ("state", "tracked", "on_failed", "project")
    search_fields = ("agent__name",)
    instruction_path = "pk"
    verbs = instructions.ADMIN
    page = "/instructions/{0.pk}/"
    links = {
        "Escalations": "retries.Escalation?instruction__id__exact={0.pk}",
        "Sent again as": "ledger.Instruction?resend_of__id__exact={0.pk}",
        "Events": "ledger.Event?subject_id__exact={0.pk}",
    }

    def name_row(self, row: Instruction) -> str:
        return row.content

    @admin.display(description="instruction")
    def start(self, row: Instruction) -> str:
        return cut(row.content)


@admin.register(StandingInstruction)
class StandingInstructionAdmin(VerbAdmin):
    list_display = ("start", "project", "agent", "event", "state", "hold_stop", "activated_at")
    list_filter = ("paused", "event", "hold_stop", "project")
    search_fields = ("content", "signal_type", "agent__name")
    verbs = rules.VERBS
    page = "/instructions/standing/{0.pk}/"
    links = {
        "Its instructions": "ledger.Instruction?rule__id__exact={0.pk}",
        "Events": "ledger.Event?subject_id__exact={0.pk}",
    }

    @admin.display(description="rule")
    def start(self, row: StandingInstruction) -> str:
        return cut(row.content)


# registers the pages of notifications
from retries.notifications import admin as notifications_admin  # noqa: E402, F401


def breaker_of(agent: Agent) -> Breaker | None:
    # An agent has a breaker only from its first failure or trip on.
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
    search_fields = ("agent__name",)
    verbs = agent_verbs.OF_BREAKER
    page = "/agents/{0.agent_id}/"
    links = {
        "Agent": "agent",
        "Attempts": "ledger.Attempt?agent__id__exact={0.agent_id}",
        "Events": "ledger.Event?agent_id__exact={0.agent_id}",
    }

    def name_row(self, row: Breaker) -> str:
        return f"{row.agent}: {row.state}"

    def list_subjects(self, row: Breaker) -> list[UUID]:
        return [row.agent_id]


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
    page = "/agents/{0.pk}/"
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


@admin.register(PermissionRequest)
class PermissionRequestAdmin(ReadOnly):
    list_display = ("asked_at", "tool", "call", "agent", "state", "taken_at", "closed_at")
    list_filter = (list_values("state", PermissionState.values), "agent", "project")
    search_fields = ("title", "tool", "agent__name")

    @admin.display(description="Call")
    def call(self, request: PermissionRequest) -> str:
        return cut(request.title)

    def find_page(self, row: PermissionRequest) -> str:
        asked = row.escalation_set.first()
        return f"/escalations/{asked.pk}/" if asked else ""

    def list_links(self, request: HttpRequest, row: PermissionRequest) -> Iterator[Link]:
        yield from self.link_to_row(request, "Escalation", row.escalation_set.first())
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
    search_fields = ("tool", "matcher")
    verbs = permission_rules.VERBS
    page = "/settings/permissions/{0.pk}/"

    links = {"Events": "ledger.Event?subject_id__exact={0.pk}"}
