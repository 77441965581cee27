"""What a person does with instructions: send one, send it again, acknowledge it, withdraw it."""

from typing import Any
from uuid import UUID

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse, reverse_lazy
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from dashboard import rendering
from dashboard.access import operators_only
from dashboard.instructions.actions import ACTIONS
from dashboard.navigation import Scope, scope_of
from dashboard.rendering import HtmxRequest
from ledger import agents, instructions
from ledger.agents import UnknownAgent
from ledger.errors import Invalid, Refusal
from ledger.instructions import MAX_RETRIES
from ledger.journal import person
from ledger.models import Agent, Instruction, Project
from ledger.sql import Row
from ledger.tokens import TrustedCaller
from retries import reminders

CRUMB = {"label": "Instructions", "url": reverse_lazy("dashboard:instructions")}


class SendForm(forms.Form):
    """A new instruction. What the ledger refuses comes back as the field's own error."""

    project = forms.ModelChoiceField(Project.objects.order_by("name"), to_field_name="name")
    agent = forms.CharField(max_length=agents.NAME_LENGTH)
    content = forms.CharField(strip=False, widget=forms.Textarea)
    max_retries = forms.IntegerField(min_value=0, max_value=MAX_RETRIES, required=False)
    priority = forms.BooleanField(required=False)
    plain = forms.BooleanField(required=False)

    def send(self, request: HttpRequest) -> Row | None:
        """The row that was sent, or None with the errors noted."""
        values = self.cleaned_data
        try:
            agent = agents.get_by_name(values["agent"], project=values["project"])
            return instructions.send(
                agent,
                values["content"].replace("\r\n", "\n"),
                tracked=not values["plain"],
                max_retries=values["max_retries"],
                priority=values["priority"],
                actor=person(request.user),
                request_id=request.id,  # type: ignore[attr-defined]
            )
        except UnknownAgent as refusal:
            self.add_error("agent", refusal.detail)
        except Invalid as refusal:
            field = refusal.more["errors"][0]["pointer"].split("/")[1]
            self.add_error(field if field in self.fields else None, refusal.detail)
        return None


@require_http_methods(["GET", "HEAD", "POST"])
@operators_only
def new(request: HtmxRequest) -> HttpResponse:
    """The form for a new instruction, and its sending."""
    scope = scope_of(request)
    if request.method != "POST":
        return form_page(request, SendForm(initial=started(request, scope)), scope)
    form = SendForm(request.POST)
    row = form.send(request) if form.is_valid() else None
    if row is None:
        return form_page(request, form, scope, status=422)
    if row["deduplicated"]:
        messages.warning(request, "The same words are on their way already: this is it.")
    else:
        messages.success(request, f"Sent. {row['agent_name']} gets it when it asks.")
    return redirect(address(row["id"], scope))


def started(request: HtmxRequest, scope: Scope) -> dict[str, Any]:
    """What an empty form begins with."""
    project = scope.project or (scope.projects[0] if scope.projects else None)
    return {
        "project": project.name if project else "",
        "agent": request.GET.get("agent", ""),
        "max_retries": settings.TENFOUR["INSTRUCTION_MAX_RETRIES"],
    }


def form_page(
    request: HtmxRequest, form: SendForm, scope: Scope, *, status: int = 200
) -> HttpResponse:
    context = {
        "now": timezone.now(),
        "title": "New instruction",
        "heading": "New instruction",
        "crumbs": [CRUMB],
        **form_context(form, scope),
    }
    response = rendering.respond(
        request,
        "instructions/new.html",
        "instructions/_new.html",
        context,
        scope=scope,
        current="instructions",
    )
    response.status_code = status
    return response


def form_context(form: SendForm, scope: Scope) -> dict[str, Any]:
    """What the form's partial needs, on its own page and in the dialog."""
    return {
        "form": form,
        "known_agents": known_agents(scope),
        "single_project": scope.projects[0] if len(scope.projects) == 1 else None,
        "projects": scope.projects,
    }


def known_agents(scope: Scope, *, most: int = 200) -> list[str]:
    """Names to choose from; of other projects too where none is chosen."""
    query = Agent.objects.filter(project=scope.project) if scope.project else Agent.objects.all()
    return list(query.order_by("name").values_list("name", flat=True).distinct()[:most])


@require_POST
@operators_only
def act(request: HtmxRequest, instruction_id: UUID, verb: str) -> HttpResponse:
    """One verb on one instruction; then back to it, with what really happened."""
    scope = scope_of(request)
    offer = ACTIONS.get(verb)
    row = Instruction.objects.select_related("agent").filter(pk=instruction_id).first()
    if offer is None or row is None:
        raise Http404(f"There is no instruction {instruction_id}.")
    if offer.question and "confirmed" not in request.POST:
        return redirect(f"{address(instruction_id, scope)}{'&' if scope.query else '?'}ask={verb}")
    try:
        done = VERBS[verb](request, row)
    except Refusal as refusal:
        messages.warning(request, f"Nothing was changed. {refusal.detail}")
    else:
        messages.success(request, done)
    return redirect(address(instruction_id, scope))


def send_again(request: HtmxRequest, row: Instruction) -> str:
    moved = reminders.send_again([row.id], actor=person(request.user))
    if not moved:
        raise Refusal("It is not waiting for an answer, or has no retry left.")
    return f"Queued again, first of all. {row.agent.name} gets it when it asks."


def acknowledge(request: HtmxRequest, row: Instruction) -> str:
    if row.state not in ("queued", "delivered") or not row.tracked:
        raise Refusal(f"It is {row.state}.")
    caller = TrustedCaller(person(request.user), project_id=row.project_id)
    instructions.acknowledge([row.id], caller=caller)
    return "Marked as acknowledged. It is not sent again."


def withdraw(request: HtmxRequest, row: Instruction) -> str:
    instructions.cancel_one(row.id, project_id=row.project_id, actor=person(request.user))
    return "Withdrawn. It is not delivered again."


VERBS = {"send-again": send_again, "acknowledge": acknowledge, "withdraw": withdraw}


def address(instruction_id: UUID, scope: Scope) -> str:
    return reverse("dashboard:instruction", args=[instruction_id]) + scope.query
