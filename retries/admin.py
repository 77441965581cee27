"""The admin's pages of retries: tasks, plans, dead letters, policies and breakers."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils import timezone

from ledger import admin as ledger_admin
from ledger.admin_pages.confirmation import confirm
from ledger.admin_pages.details import Link
from ledger.admin_pages.filters import list_values
from ledger.admin_pages.lists import ReadOnly, cut, name_task
from ledger.authorization.permissions import may
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
from ledger.plans import editing as ledger_plans
from ledger.states import BlockedReason
from retries import deadletters, reminders
from retries.admin_pages import breakers as _breakers  # noqa: F401 - registers its pages
from retries.admin_pages import effects as admin_effects
from retries.admin_pages.forms import DependentsForm
from retries.escalations import admin as _escalations  # noqa: F401 - registers its page
from retries.escalations import answering
from retries.failures import admin as _failures  # noqa: F401 - registers its pages
from retries.models import Escalation, RetryPolicy
from retries.operations import admin as _operations  # noqa: F401 - registers its page
from retries.operations import dead_letter_verbs, instruction_verbs, task_verbs
from retries.plans import aborting, restarting
from retries.policies.editing import record_change
from retries.states import Reason
from retries.tasks import actions as task_actions


def describe_counts(aborted: int, running: int) -> str:
    """Return how many tasks were stopped, such as "2 tasks aborted, 1 told to stop"."""
    parts = [f"{aborted} task{'' if aborted == 1 else 's'} aborted"] if aborted else []
    return ", ".join([*parts, f"{running} told to stop"] if running else parts)


@admin.register(Task)
class TaskAdmin(ReadOnly):
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
    action_form = DependentsForm
    actions = ("retry_now", "unblock", "skip", "abort")
    narrow = {
        "retry_now": task_verbs.narrow_to_waiting,
        "unblock": task_verbs.narrow_to_skipped_need,
        "skip": task_verbs.narrow_to_skippable,
        "abort": task_verbs.narrow_to_abortable,
    }
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

    @admin.action(description="Retry now")
    def retry_now(self, request: HttpRequest, chosen: QuerySet[Task]) -> None:
        changed = task_actions.retry_now(
            chosen.values_list("pk", flat=True), stamp=stamp_of(request)
        )
        self.report_changes(request, len(changed), "retried now")

    @admin.action(description="Unblock: continue without the skipped task")
    @confirm(admin_effects.unblock_tasks)
    def unblock(self, request: HttpRequest, chosen: QuerySet[Task]) -> None:
        changed = task_actions.unblock(chosen.values_list("pk", flat=True), stamp=stamp_of(request))
        self.report_changes(request, len(changed), "unblocked")

    @admin.action(description="Skip…")
    @confirm(admin_effects.skip_tasks)
    def skip(self, request: HttpRequest, chosen: QuerySet[Task]) -> None:
        changed = task_actions.skip(
            chosen.values_list("pk", flat=True),
            dependents=admin_effects.read_dependents(request),
            stamp=stamp_of(request),
        )
        self.report_changes(request, len(changed), "skipped")

    @admin.action(description="Abort…")
    @confirm(admin_effects.abort_tasks)
    def abort(self, request: HttpRequest, chosen: QuerySet[Task]) -> None:
        stopped = task_actions.abort(chosen.values_list("pk", flat=True), stamp=stamp_of(request))
        now, later = sum(stopped.values()), len(stopped) - sum(stopped.values())
        self.report_changes(
            request,
            len(stopped),
            f"stopped: {describe_counts(now, later)}" if stopped else "stopped",
        )


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
        of_tasks = describe_counts(*aborting.count_stopped(done, at=now))
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
class DeadLetterAdmin(ReadOnly):
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
    action_form = DependentsForm
    actions = ("replay", "dismiss")
    narrow = {
        "replay": dead_letter_verbs.narrow_to_replayable,
        "dismiss": dead_letter_verbs.narrow_to_open,
    }
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

    @admin.action(description="Replay: enqueue the task again")
    @confirm(admin_effects.replay_letters)
    def replay(self, request: HttpRequest, chosen: QuerySet[DeadLetter]) -> None:
        ids = list(chosen.values_list("pk", flat=True))
        done = deadletters.replay(ids, among=DeadLetter.objects.all(), stamp=stamp_of(request))
        self.report_changes(request, len(done), "replayed")

    @admin.action(description="Dismiss: do not retry")
    @confirm(admin_effects.dismiss_letters)
    def dismiss(self, request: HttpRequest, chosen: QuerySet[DeadLetter]) -> None:
        ids = list(chosen.values_list("pk", flat=True))
        done = deadletters.dismiss(
            ids,
            among=DeadLetter.objects.all(),
            dependents=admin_effects.read_dependents(request),
            stamp=stamp_of(request),
        )
        self.report_changes(request, len(done), "dismissed")


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


admin.site.unregister(Instruction)


@admin.register(Instruction)
class InstructionAdmin(ledger_admin.InstructionAdmin):
    """The ledger's page of instructions, with the action that sends them again."""

    actions = ("send_again", *ledger_admin.InstructionAdmin.actions)
    narrow = ledger_admin.InstructionAdmin.narrow | {
        "send_again": instruction_verbs.narrow_to_resendable,
        "cancel": instruction_verbs.narrow_to_cancellable,
    }

    def list_links(self, request: HttpRequest, row: Instruction) -> Iterator[Link]:
        of = {"instruction__id__exact": row.pk}
        yield from self.link_to_list(request, "Escalations", Escalation, **of)
        yield from super().list_links(request, row)

    @admin.action(description="Send again: a reminder now, or a new instruction if given up")
    def send_again(self, request: HttpRequest, chosen: QuerySet[Instruction]) -> None:
        ids, stamp = list(chosen.values_list("pk", flat=True)), stamp_of(request)
        reminded = reminders.send_again(ids, stamp=stamp)
        resent = answering.send_failed_again(ids, channel="admin", stamp=stamp)
        self.report_changes(request, len(reminded) + len(resent), "sent again")


# registers the pages of notifications
from retries.notifications import admin as notifications_admin  # noqa: E402, F401
