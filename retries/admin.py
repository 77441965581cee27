"""The triage window on questions to people, with the four answers as actions."""

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ActionForm
from django.db.models import QuerySet
from django.http import HttpRequest

from ledger.admin import ReadOnly
from ledger.journal import person
from ledger.refusals import Refusal
from retries import escalations
from retries.escalations import FIX_LENGTH, Choice
from retries.models import Escalation
from retries.states import Answer


class AnswerForm(ActionForm):
    """The words of a fix, beside the list of actions."""

    fix = forms.CharField(required=False, max_length=FIX_LENGTH, label="Words for 'fix'")


@admin.register(Escalation)
class EscalationAdmin(ReadOnly):
    list_display = (
        "opened_at",
        "agent",
        "reason",
        "state",
        "action",
        "answered_by_name",
        "closed_at",
    )
    list_filter = ("state", "reason", "action", "project")
    list_select_related = ("agent",)
    search_fields = ("agent__name", "answered_by_name")
    ordering = ("-id",)
    action_form = AnswerForm
    actions = ("fix", "retry", "skip", "abort")

    @admin.action(description="Fix: send the words beside instead")
    def fix(self, request: HttpRequest, chosen: QuerySet[Escalation]) -> None:
        self.answer(request, chosen, Choice(Answer.FIX, fix=request.POST.get("fix", "")))

    @admin.action(description="Retry: send again")
    def retry(self, request: HttpRequest, chosen: QuerySet[Escalation]) -> None:
        self.answer(request, chosen, Choice(Answer.RETRY))

    @admin.action(description="Skip: leave it given up")
    def skip(self, request: HttpRequest, chosen: QuerySet[Escalation]) -> None:
        self.answer(request, chosen, Choice(Answer.SKIP))

    @admin.action(description="Abort: withdraw all that waits for the agent")
    def abort(self, request: HttpRequest, chosen: QuerySet[Escalation]) -> None:
        self.answer(request, chosen, Choice(Answer.ABORT))

    def answer(self, request: HttpRequest, chosen: QuerySet[Escalation], choice: Choice) -> None:
        """Give each the same answer; those already answered are named."""
        changed = 0
        for each in chosen:
            try:
                escalations.answer(
                    each.id,
                    choice,
                    among=Escalation.objects.all(),
                    actor=person(request.user),
                    channel="admin",
                )
                changed += 1
            except Refusal as refusal:
                self.message_user(request, refusal.detail, messages.ERROR)
        self.told(request, changed, "answered")
