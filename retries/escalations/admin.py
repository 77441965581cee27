"""The admin's page of escalations, with every answer that a person can give."""

from collections.abc import Iterator, Sequence
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.forms import BoundField
from django.http import HttpRequest

from ledger.admin_pages.details import VERB_FORM, Link
from ledger.admin_pages.filters import WithDefault, list_values
from ledger.admin_pages.lists import WithErrors, cut, name_task
from ledger.models import Attempt, Event, Failure
from retries.escalations import answer_outcome, response_schema
from retries.escalations.record import render_escalation
from retries.models import Escalation
from retries.states import Answer, EscalationState, Reason
from retries.verbs import escalations
from retries.verbs.admin import VerbAdmin
from retries.verbs.escalations import FIELD_PREFIX


def name_subject(escalation: Escalation) -> str:
    task, instruction = escalation.task, escalation.instruction
    if task:
        return name_task(task)
    if escalation.permission:
        return escalation.permission.title
    return instruction.content if instruction else ""


class StateFilter(WithDefault):
    """A filter by state that shows open escalations first."""

    title = "state"
    parameter_name = "state"
    first = EscalationState.OPEN

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [*EscalationState.choices, ("any", "Any state")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        state = self.value()
        return queryset if state == "any" else queryset.filter(state=state)


@admin.register(Escalation)
class EscalationAdmin(WithErrors, VerbAdmin):
    list_display = ("opened_at", "about", "error", "reason", "agent", "outcome_of")
    list_filter = (
        StateFilter,
        list_values("reason", Reason.values),
        list_values("action", Answer.values),
        "agent",
        "project",
    )
    list_select_related = ("agent", "task", "instruction", "permission")
    readonly_fields = ("message", "outcome")
    search_fields = ("agent__name", "answered_by_name")
    task_path = "task"
    instruction_path = "instruction"
    verbs = escalations.ADMIN
    page = "/escalations/{0.pk}/"

    def is_about_one(self, request: HttpRequest) -> bool:
        """Return whether the list shows a search, the escalations of one row, or chosen ones."""
        # A chosen row that was answered meanwhile is still chosen, so that the action tells who
        # answered.
        if request.method == "POST" and request.POST.get("select_across") != "1":
            return True
        return bool({"q", "task__id__exact", "instruction__id__exact"} & request.GET.keys())

    @admin.display(description="About")
    def about(self, escalation: Escalation) -> str:
        return cut(name_subject(escalation))

    def name_row(self, row: Escalation) -> str:
        return f"{row.reason.replace('_', ' ').capitalize()}: {name_subject(row)}"

    @admin.display(description="State", ordering="closed_at")
    def outcome_of(self, row: Escalation) -> str:
        # The time is on the row's page.
        by = f" by {row.answered_by_name}" if row.answered_by_name else ""
        return f"{row.state}: {row.action}{by}" if row.action else row.state

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
        yield from self.link_to_row(request, "Permission request", row.permission)
        if row.task_id:
            of = {"task__id__exact": row.task_id}
            yield from self.link_to_list(request, "Attempts", Attempt, **of)
            yield from self.link_to_list(request, "Failures", Failure, **of)
        yield from self.link_to_list(request, "Events", Event, subject_id__exact=row.pk)

    # ---- the fields of a question

    def list_verb_fields(self, row: Escalation, verbs: Sequence[str]) -> list[BoundField]:
        found = super().list_verb_fields(row, verbs)
        if "answer_question" not in verbs or not row.response_schema:
            return found
        return [*build_question_form(row.response_schema), *found]

    def is_input(self, name: str) -> bool:
        return name.startswith(FIELD_PREFIX) or super().is_input(name)


def build_question_form(schema: dict[str, Any]) -> forms.Form:
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
