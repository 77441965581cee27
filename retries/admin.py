"""The admin's pages of retries: escalations, tasks, plans, dead letters, patterns, breakers."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ActionForm
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.text import Truncator

from ledger import admin as ledger_admin
from ledger.admin_lists import ReadOnly
from ledger.confirmation import confirm
from ledger.errors import Refusal
from ledger.journal import stamp_of
from ledger.models import Agent, Breaker, DeadLetter, Instruction, Plan, Task
from ledger.permissions import may
from ledger.plans import editing as ledger_plans
from retries import admin_effects, breaker, deadletters, reminders, task_actions
from retries.escalations import answer_outcome, answering
from retries.escalations.choices import FIX_LENGTH, Choice
from retries.escalations.record import render_escalation
from retries.failures import admin as failures_admin  # noqa: F401 - registers its pages
from retries.failures import patterns
from retries.models import Escalation, FailurePattern, RetryPolicy
from retries.plans import aborting, restarting
from retries.policies.editing import record_change
from retries.states import Answer, Dependents

SUBJECT_LENGTH = 80


class DependentsForm(ActionForm):
    """The action list with a choice for the dependents of skipped tasks."""

    dependents = forms.ChoiceField(
        required=False, choices=Dependents.choices, label="Dependents of skipped tasks"
    )


class AnswerForm(DependentsForm):
    """The action list with the text of a fix."""

    fix = forms.CharField(required=False, max_length=FIX_LENGTH, label="Text for 'Fix'")


def describe_counts(aborted: int, running: int) -> str:
    """Return how many tasks were stopped, such as "2 tasks aborted, 1 told to stop"."""
    parts = [f"{aborted} task{'' if aborted == 1 else 's'} aborted"] if aborted else []
    return ", ".join([*parts, f"{running} told to stop"] if running else parts)


@admin.register(Escalation)
class EscalationAdmin(ReadOnly):
    list_display = (
        "opened_at",
        "about",
        "agent",
        "reason",
        "state",
        "action",
        "answered_by_name",
        "closed_at",
    )
    list_filter = ("state", "reason", "action", "project")
    list_select_related = ("agent", "task", "instruction")
    readonly_fields = ("message", "outcome")
    search_fields = ("agent__name", "answered_by_name", "task__title", "task__ref")
    ordering = ("-id",)
    action_form = AnswerForm
    actions = ("fix", "retry", "skip", "abort")

    @admin.display(description="About")
    def about(self, escalation: Escalation) -> str:
        task, instruction = escalation.task, escalation.instruction
        if task:
            return " ".join(filter(None, (task.ref, task.title or task.type)))
        return Truncator(instruction.content).chars(SUBJECT_LENGTH) if instruction else ""

    @admin.display(description="Message")
    def message(self, escalation: Escalation) -> str:
        return render_escalation(escalation)

    @admin.display(description="Outcome")
    def outcome(self, escalation: Escalation) -> str:
        since = answer_outcome.find_outcomes([escalation]).get(escalation.pk)
        came = since.describe(escalation.action) if since else ""
        return (
            ". ".join(filter(None, [came, answer_outcome.describe_consequence(escalation)])) or "–"
        )

    @admin.action(description="Fix: send the text")
    @confirm(admin_effects.answer_again(Answer.FIX))
    def fix(self, request: HttpRequest, chosen: QuerySet[Escalation]) -> None:
        self.answer(request, chosen, Choice(Answer.FIX, fix=request.POST.get("fix", "")))

    @admin.action(description="Retry: start over")
    @confirm(admin_effects.answer_again(Answer.RETRY))
    def retry(self, request: HttpRequest, chosen: QuerySet[Escalation]) -> None:
        self.answer(request, chosen, Choice(Answer.RETRY))

    @admin.action(description="Skip: drop the instruction or the task")
    @confirm(admin_effects.answer_skip)
    def skip(self, request: HttpRequest, chosen: QuerySet[Escalation]) -> None:
        self.answer(
            request, chosen, Choice(Answer.SKIP, dependents=admin_effects.read_dependents(request))
        )

    @admin.action(
        description="Abort: cancel the agent's pending instructions, or abort the task's plan"
    )
    @confirm(admin_effects.answer_abort)
    def abort(self, request: HttpRequest, chosen: QuerySet[Escalation]) -> None:
        self.answer(request, chosen, Choice(Answer.ABORT))

    def answer(self, request: HttpRequest, chosen: QuerySet[Escalation], choice: Choice) -> None:
        """Give each the same answer; show an error for those that can't take it."""
        changed = 0
        for each in chosen:
            try:
                answering.answer(
                    each.id,
                    choice,
                    among=Escalation.objects.all(),
                    stamp=stamp_of(request),
                    channel="admin",
                )
                changed += 1
            except Refusal as refusal:
                self.message_user(request, refusal.detail, messages.ERROR)
        self.report_changes(request, changed, "answered")


@admin.register(Task)
class TaskAdmin(ReadOnly):
    list_display = ("__str__", "agent", "type", "state", "priority", "retry_count", "updated_at")
    list_filter = ("state", "blocked_reason", "on_exhausted", "project")
    list_select_related = ("agent",)
    search_fields = ("agent__name", "title", "type")
    ordering = ("-id",)
    action_form = DependentsForm
    actions = ("retry_now", "unblock", "skip", "abort")

    @admin.action(description="Retry now")
    def retry_now(self, request: HttpRequest, chosen: QuerySet[Task]) -> None:
        changed = task_actions.retry_now(
            chosen.values_list("pk", flat=True), stamp=stamp_of(request)
        )
        self.report_changes(request, len(changed), "retried now")

    @admin.action(description="Unblock: go on without the skipped task")
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
    list_display = ("failed_at", "agent", "type", "reason", "retry_count", "closed_as")
    list_filter = ("closed_as", "reason", "project")
    list_select_related = ("agent",)
    search_fields = ("agent__name", "type", "error")
    ordering = ("-id",)
    action_form = DependentsForm
    actions = ("replay", "dismiss")

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


@admin.register(FailurePattern)
class FailurePatternAdmin(ReadOnly):
    list_display = ("template", "state", "ignored_until", "first_seen", "last_seen", "project")
    list_filter = ("state", "project")
    list_select_related = ("project",)
    search_fields = ("template", "fingerprint")
    ordering = ("-last_seen", "-id")
    actions = ("resolve", "ignore", "reopen", "retry")

    @admin.action(description="Resolve: the next failure is a regression")
    def resolve(self, request: HttpRequest, chosen: QuerySet[FailurePattern]) -> None:
        ids = chosen.values_list("pk", flat=True)
        self.report_changes(
            request, len(patterns.resolve(ids, stamp=stamp_of(request))), "resolved"
        )

    @admin.action(description="Ignore permanently")
    def ignore(self, request: HttpRequest, chosen: QuerySet[FailurePattern]) -> None:
        ids = chosen.values_list("pk", flat=True)
        self.report_changes(request, len(patterns.ignore(ids, stamp=stamp_of(request))), "ignored")

    @admin.action(description="Reopen")
    def reopen(self, request: HttpRequest, chosen: QuerySet[FailurePattern]) -> None:
        ids = chosen.values_list("pk", flat=True)
        self.report_changes(request, len(patterns.reopen(ids, stamp=stamp_of(request))), "reopened")

    @admin.action(description="Retry all: dead letters, retries and questions")
    @confirm(admin_effects.retry_patterns)
    def retry(self, request: HttpRequest, chosen: QuerySet[FailurePattern]) -> None:
        ids = list(chosen.values_list("pk", flat=True))
        again = patterns.retry(ids, stamp=stamp_of(request), channel="admin")
        self.report_changes(request, len(again), "retried")


@admin.register(RetryPolicy)
class RetryPolicyAdmin(ReadOnly):
    """The policies of each project, which can be edited."""

    list_display = ("project", "ask_at_once", "obey_waits", "ask_on_same_failure")
    list_select_related = ("project",)
    search_fields = ("project__name",)

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


class BreakerActions(ReadOnly):
    """Actions on the breakers of agents, for rows that are an agent or belong to one."""

    actions: tuple[str, ...] = ("trip_breaker", "reset_breaker")

    @admin.action(description="Trip the breaker: hand out no tasks until it is half-open")
    def trip_breaker(self, request: HttpRequest, chosen: QuerySet[Any]) -> None:
        stamp, agents = stamp_of(request), [agent_of(row) for row in chosen]
        changed = breaker.trip(agents, reason="by hand", stamp=stamp)
        self.report_changes(request, len(changed), "tripped")

    @admin.action(description="Reset the breaker: close it and clear its failures")
    @confirm(admin_effects.reset_breakers)
    def reset_breaker(self, request: HttpRequest, chosen: QuerySet[Any]) -> None:
        stamp, agents = stamp_of(request), [agent_of(row) for row in chosen]
        changed = breaker.reset(agents, stamp=stamp)
        self.report_changes(request, len(changed), "reset")


def agent_of(row: Agent | Breaker) -> Agent:
    return row if isinstance(row, Agent) else row.agent


@admin.register(Breaker)
class BreakerAdmin(BreakerActions):
    project_path = "agent__project_id"
    list_display = ("agent", "state", "failures", "opened_at", "trips", "updated_at")
    list_filter = ("state", "agent__project")
    list_select_related = ("agent",)
    search_fields = ("agent__name",)


admin.site.unregister(Agent)
admin.site.unregister(Instruction)


@admin.register(Agent)
class AgentAdmin(BreakerActions, ledger_admin.AgentAdmin):
    """The ledger's page of agents, with actions on their breakers."""

    actions = (*ledger_admin.AgentAdmin.actions, *BreakerActions.actions)


@admin.register(Instruction)
class InstructionAdmin(ledger_admin.InstructionAdmin):
    """The ledger's page of instructions, with the action that sends them again."""

    actions = ("send_again", *ledger_admin.InstructionAdmin.actions)

    @admin.action(description="Send again: a reminder now, or a new instruction if given up")
    def send_again(self, request: HttpRequest, chosen: QuerySet[Instruction]) -> None:
        ids, stamp = list(chosen.values_list("pk", flat=True)), stamp_of(request)
        reminded = reminders.send_again(ids, stamp=stamp)
        resent = answering.send_failed_again(ids, channel="admin", stamp=stamp)
        self.report_changes(request, len(reminded) + len(resent), "sent again")


# registers the pages of notifications
from retries.notifications import admin as notifications_admin  # noqa: E402, F401
