"""The admin's pages of retries: tasks, plans, dead letters, policies and breakers."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

from ledger.admin_pages.details import Link
from ledger.admin_pages.filters import list_values
from ledger.admin_pages.lists import ReadOnly, cut, name_task
from ledger.authorization.permissions import may
from ledger.journal import stamp_of
from ledger.models import (
    DeadLetter,
    Instruction,
    Plan,
    StandingInstruction,
    Task,
)
from ledger.states import BlockedReason
from retries import admin_agents as _agents  # noqa: F401 - registers its pages
from retries.escalations import admin as _escalations  # noqa: F401 - registers its page
from retries.failures import admin as _failures  # noqa: F401 - registers its pages
from retries.models import Escalation, RetryPolicy
from retries.operations import admin as _operations  # noqa: F401 - registers its page
from retries.policies.editing import record_change
from retries.states import Reason
from retries.verbs import dead_letters, instructions, plans, rules, tasks
from retries.verbs.admin import VerbAdmin


@admin.register(Task)
class TaskAdmin(VerbAdmin):
    list_display = ("__str__", "agent", "type", "state", "priority", "retry_count", "updated_at")
    list_filter = (
        "state",
        list_values("blocked_reason", BlockedReason.values),
        "on_exhausted",
        "project",
    )
    list_select_related = ("agent",)
    search_fields = ("agent__name",)
    task_path = "pk"
    ordering = ("-id",)
    verbs = tasks.PAGE
    page = "/tasks/{}/"

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
    list_select_related = ("project",)
    search_fields = ("ref", "title")
    ordering = ("-id",)
    verbs = plans.VERBS
    page = "/plans/{}/"

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
    ordering = ("-id",)
    verbs = dead_letters.VERBS
    page = "/dead-letters/{}/"
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
    list_select_related = ("project",)
    search_fields = ("project__name",)
    links = {
        "Project": "project",
        "Events": "ledger.Event?subject_id__exact={0.project_id}",
    }

    def find_page(self, row: RetryPolicy) -> str:
        return "/settings/policies/"

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
    list_select_related = ("agent",)
    search_fields = ("agent__name",)
    instruction_path = "pk"
    ordering = ("-id",)
    verbs = instructions.ADMIN
    page = "/instructions/{}/"
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
    list_select_related = ("agent", "project")
    search_fields = ("content", "signal_type", "agent__name")
    ordering = ("-id",)
    verbs = rules.VERBS
    page = "/instructions/standing/{}/"
    links = {
        "Its instructions": "ledger.Instruction?rule__id__exact={0.pk}",
        "Events": "ledger.Event?subject_id__exact={0.pk}",
    }

    @admin.display(description="rule")
    def start(self, row: StandingInstruction) -> str:
        return cut(row.content)


# registers the pages of notifications
from retries.notifications import admin as notifications_admin  # noqa: E402, F401
