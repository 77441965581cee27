"""The admin's page of escalations, with every answer that a person can give."""

from collections.abc import Iterator, Sequence
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.forms import BoundField
from django.http import HttpRequest

from ledger.admin_pages.confirmation import confirm
from ledger.admin_pages.details import VERB_FORM, Link
from ledger.admin_pages.filters import list_values
from ledger.admin_pages.lists import ReadOnly, cut, name_task
from ledger.errors import Refusal
from ledger.journal import stamp_of
from ledger.models import Attempt, Event, Failure
from retries.admin_pages import effects as admin_effects
from retries.admin_pages.forms import DependentsForm
from retries.escalations import answer_outcome, answering, response_schema
from retries.escalations.choices import FIX_LENGTH, Choice
from retries.escalations.record import render_escalation
from retries.models import Escalation
from retries.states import QUESTIONS, Answer, EscalationState, Reason


class AnswerForm(DependentsForm):
    """The action list with the text of a fix or an answer."""

    fix = forms.CharField(
        required=False,
        max_length=FIX_LENGTH,
        label="Text for 'Fix' or 'Answer'",
        widget=forms.Textarea({"rows": 2}),
    )
    inputs = {"fix": ("fix", "answer_question"), **DependentsForm.inputs}


def name_subject(escalation: Escalation) -> str:
    """Return the name of the task or the text of the instruction that an escalation is about."""
    task, instruction = escalation.task, escalation.instruction
    if task:
        return name_task(task)
    return instruction.content if instruction else ""


def narrow_to_open(rows: QuerySet[Any]) -> QuerySet[Any]:
    return rows.filter(state=EscalationState.OPEN)


def narrow_to_questions(rows: QuerySet[Any]) -> QuerySet[Any]:
    return narrow_to_open(rows).filter(reason__in=QUESTIONS)


@admin.register(Escalation)
class EscalationAdmin(ReadOnly):
    list_display = (
        "opened_at",
        "about",
        "state",
        "reason",
        "agent",
        "action",
        "answered_by_name",
        "closed_at",
    )
    list_filter = (
        "state",
        list_values("reason", Reason.values),
        list_values("action", Answer.values),
        "project",
    )
    list_select_related = ("agent", "task", "instruction")
    readonly_fields = ("message", "outcome")
    search_fields = ("agent__name", "answered_by_name")
    task_path = "task"
    instruction_path = "instruction"
    ordering = ("-id",)
    action_form = AnswerForm
    actions = ("answer_question", "fix", "retry", "skip", "abort")
    narrow = {
        "answer_question": narrow_to_questions,
        **dict.fromkeys(("fix", "retry", "skip", "abort"), narrow_to_open),
    }
    page = "/escalations/{}/"

    @admin.display(description="About")
    def about(self, escalation: Escalation) -> str:
        return cut(name_subject(escalation))

    def name_row(self, row: Escalation) -> str:
        return f"{row.reason.replace('_', ' ').capitalize()}: {name_subject(row)}"

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

    def list_links(self, request: HttpRequest, row: Escalation) -> Iterator[Link]:
        yield from self.link_to_row(request, "Task", row.task)
        yield from self.link_to_row(request, "Instruction", row.instruction)
        if row.task_id:
            of = {"task__id__exact": row.task_id}
            yield from self.link_to_list(request, "Attempts", Attempt, **of)
            yield from self.link_to_list(request, "Failures", Failure, **of)
        yield from self.link_to_list(request, "Events", Event, subject_id__exact=row.pk)

    # ---- the fields of a question

    def list_verb_fields(self, row: Escalation, verbs: Sequence[str]) -> list[BoundField]:
        """Return the inputs of the verbs, and those that a question asks for."""
        found = super().list_verb_fields(row, verbs)
        if "answer_question" not in verbs or not row.response_schema:
            return found
        return [*build_question_form(row.response_schema), *found]

    def is_input(self, name: str) -> bool:
        return name.startswith(FIELD_PREFIX) or super().is_input(name)

    # ---- the answers

    @admin.action(description="Answer: send the text to the agent or the checkpoint that asked")
    @confirm(admin_effects.answer_questions)
    def answer_question(self, request: HttpRequest, chosen: QuerySet[Escalation]) -> None:
        """Answer the questions among the escalations, each with the values that it asks for."""
        questions = narrow_to_questions(chosen)
        done = [self.answer_one(request, each, read_answer(request, each)) for each in questions]
        self.report_changes(request, sum(done), "answered")

    @admin.action(description="Fix: send the text")
    @confirm(admin_effects.answer_again(Answer.FIX))
    def fix(self, request: HttpRequest, chosen: QuerySet[Escalation]) -> None:
        self.answer(request, chosen, Choice(Answer.FIX, fix=read_text(request)))

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
        """Answer each escalation in the same way."""
        done = [self.answer_one(request, each, choice) for each in chosen]
        self.report_changes(request, sum(done), "answered")

    def answer_one(self, request: HttpRequest, escalation: Escalation, choice: Choice) -> bool:
        """Answer an escalation, or show the reason why it can't take the answer."""
        try:
            answering.answer(
                escalation.id,
                choice,
                among=Escalation.objects.all(),
                stamp=stamp_of(request),
                channel="admin",
            )
        except Refusal as refusal:
            self.message_user(request, refusal.detail, messages.ERROR)
            return False
        return True


# ---- what was typed

FIELD_PREFIX = "response."  # of the fields that a question asks for


def read_text(request: HttpRequest) -> str:
    # browsers end lines with CR LF
    return request.POST.get("fix", "").replace("\r\n", "\n")


def read_answer(request: HttpRequest, escalation: Escalation) -> Choice:
    """Return the answer to a question, with the values of its response schema."""
    typed = {
        name.removeprefix(FIELD_PREFIX): str(value)
        for name, value in request.POST.items()
        if name.startswith(FIELD_PREFIX)
    }
    schema = escalation.response_schema
    values = response_schema.parse_values(schema, typed) if schema else None
    return Choice(Answer.ANSWER, fix=read_text(request), response=values)


def build_question_form(schema: dict[str, Any]) -> forms.Form:
    """Return a form with a field for each value that a question asks for."""
    form = forms.Form(auto_id="verb-%s")
    for each in response_schema.list_fields(schema):
        attributes = {"form": VERB_FORM}
        choices = [("", "–"), *((name, name) for name in each.choices)]
        form.fields[f"{FIELD_PREFIX}{each.name}"] = forms.CharField(
            label=f"{each.label} ({each.hint})" if each.hint else each.label,
            initial=each.value,
            widget=forms.Select(attributes, choices)
            if each.choices
            else forms.TextInput(attributes),
        )
    return form
