"""The admin's pages of retries: tasks, plans, dead letters, policies and breakers."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils import timezone

from ledger.admin_details import Link
from ledger.admin_filters import list_values
from ledger.admin_lists import ReadOnly, cut, name_task
from ledger.confirmation import confirm
from ledger.errors import Refusal
from ledger.journal import stamp_of
from ledger.models import (
    Attempt,
    DeadLetter,
    Event,
    Failure,
    Instruction,
    Plan,
    PlanState,
    Task,
    TaskHistory,
)
from ledger.permissions import may
from ledger.plans import editing as ledger_plans
from ledger.states import BlockedReason
from retries import admin_breakers as _breakers  # noqa: F401 - registers its pages
from retries import admin_effects
from retries.escalations import admin as _escalations  # noqa: F401 - registers its page
from retries.failures import admin as _failures  # noqa: F401 - registers its pages
from retries.models import Escalation, RetryPolicy
from retries.operations import admin as _operations  # noqa: F401 - registers its page
from retries.plans import aborting, restarting
from retries.policies.editing import record_change
from retries.states import Reason
from retries.verbs import dead_letters, instructions, tasks
from retries.verbs.admin import VerbAdmin
from retries.verbs.effects import describe_stopped


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

    def list_links(self, request: HttpRequest, row: Task) -> Iterator[Link]:
        asked = Escalation.objects.open().filter(task=row).order_by("id").first()
        yield from self.link_to_row(request, "Open question", asked)
        letter = DeadLetter.objects.filter(task=row).order_by("id").first()
        yield from self.link_to_row(request, "Dead letter", letter)
        of = {"task__id__exact": row.pk}
        yield from self.link_to_list(request, "Attempts", Attempt, **of)
        yield from self.link_to_list(request, "Failures", Failure, **of)
        yield from self.link_to_list(request, "Escalations", Escalation, **of)
        yield from self.link_to_list(request, "States", TaskHistory, **of)
        yield from self.link_to_list(request, "Events", Event, subject_id__exact=row.pk)


@admin.register(Plan)
class PlanAdmin(ReadOnly):
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
    actions = ("pause", "resume", "abort", "restart")
    narrow = {
        "pause": lambda rows: rows.in_state(PlanState.ACTIVE),
        "resume": lambda rows: rows.in_state(PlanState.PAUSED),
        "abort": lambda rows: rows.in_state(PlanState.ACTIVE, PlanState.PAUSED),
        "restart": lambda rows: rows.in_state(PlanState.COMPLETED, PlanState.ABORTED),
    }
    page = "/plans/{}/"

    def list_links(self, request: HttpRequest, row: Plan) -> Iterator[Link]:
        of = {"plan__id__exact": row.pk}
        yield from self.link_to_list(request, "Tasks", Task, **of)
        yield from self.link_to_list(request, "Failed tasks", Task, **of, state__exact="failed")
        yield from self.link_to_list(request, "Events", Event, subject_id__exact=row.pk)

    @admin.display(description="state")
    def current_state(self, row: Plan) -> str:
        return row.state

    @admin.action(description="Pause: start no more of its tasks")
    def pause(self, request: HttpRequest, chosen: QuerySet[Plan]) -> None:
        ids = chosen.values_list("pk", flat=True)
        self.report_changes(
            request, len(ledger_plans.pause(ids, stamp=stamp_of(request))), "paused"
        )

    @admin.action(description="Resume")
    def resume(self, request: HttpRequest, chosen: QuerySet[Plan]) -> None:
        ids = chosen.values_list("pk", flat=True)
        self.report_changes(
            request, len(ledger_plans.resume(ids, stamp=stamp_of(request))), "resumed"
        )

    @admin.action(description="Abort…")
    @confirm(admin_effects.abort_plans)
    def abort(self, request: HttpRequest, chosen: QuerySet[Plan]) -> None:
        now = timezone.now()
        done = aborting.abort(chosen.values_list("pk", flat=True), stamp=stamp_of(request, now))
        of_tasks = describe_stopped(*aborting.count_stopped(done, at=now))
        self.report_changes(request, len(done), f"aborted, {of_tasks}" if of_tasks else "aborted")

    @admin.action(description="Restart: run the tasks that are not done again")
    @confirm(admin_effects.restart_plans)
    def restart(self, request: HttpRequest, chosen: QuerySet[Plan]) -> None:
        done = 0
        for plan in chosen:
            try:
                restarting.restart(plan.pk, stamp=stamp_of(request))
                done += 1
            except Refusal as refusal:
                self.message_user(request, refusal.detail, messages.ERROR)
        self.report_changes(request, done, "restarted")


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

    @admin.display(description="task")
    def about(self, row: DeadLetter) -> str:
        return cut(name_task(row.task))

    def name_row(self, row: DeadLetter) -> str:
        return name_task(row.task)

    def list_subjects(self, row: DeadLetter) -> list[UUID]:
        return [row.task_id]

    def list_links(self, request: HttpRequest, row: DeadLetter) -> Iterator[Link]:
        of = {"task__id__exact": row.task_id}
        yield from self.link_to_row(request, "Task", row.task)
        yield from self.link_to_list(request, "Attempts", Attempt, **of)
        yield from self.link_to_list(request, "Failures", Failure, **of)
        yield from self.link_to_list(request, "Events", Event, subject_id__exact=row.task_id)


@admin.register(RetryPolicy)
class RetryPolicyAdmin(ReadOnly):
    """The policies of each project, which can be edited."""

    list_display = ("project", "ask_at_once", "obey_waits", "ask_on_same_failure", "evidence")
    list_select_related = ("project",)
    search_fields = ("project__name",)

    def find_page(self, row: RetryPolicy) -> str:
        return "/settings/policies/"

    def list_subjects(self, row: RetryPolicy) -> list[UUID]:
        return [row.project_id]

    def list_links(self, request: HttpRequest, row: RetryPolicy) -> Iterator[Link]:
        yield from self.link_to_row(request, "Project", row.project)
        yield from self.link_to_list(request, "Events", Event, subject_id__exact=row.project_id)

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

    def name_row(self, row: Instruction) -> str:
        return row.content

    @admin.display(description="instruction")
    def start(self, row: Instruction) -> str:
        return cut(row.content)

    def list_links(self, request: HttpRequest, row: Instruction) -> Iterator[Link]:
        of = {"instruction__id__exact": row.pk}
        yield from self.link_to_list(request, "Escalations", Escalation, **of)
        yield from self.link_to_list(
            request, "Sent again as", Instruction, resend_of__id__exact=row.pk
        )
        yield from self.link_to_list(request, "Events", Event, subject_id__exact=row.pk)


# registers the pages of notifications
from retries.notifications import admin as notifications_admin  # noqa: E402, F401
