"""Handle the forms of Instructions: send, resend, acknowledge and cancel."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django import forms
from django.conf import settings
from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse, reverse_lazy

from dashboard.actions import build_action_view, by_slug
from dashboard.frame.navigation import Scope
from dashboard.frame.rendering import Crumb, HtmxRequest, Visit, begin_visit, compose_page, respond
from dashboard.lists.compiled_queries import compiled
from dashboard.lists.shared_queries import of_project
from ledger import agents, instructions
from ledger.agents import UnknownAgent
from ledger.database.sql import Row
from ledger.errors import Invalid
from ledger.instructions import MAX_RETRIES
from ledger.journal import stamp_of
from ledger.models import Agent, Project
from ledger.values.text import normalize_newlines
from retries.verbs import instructions as instruction_verbs

AGENTS_LISTED = 200
CRUMB = Crumb("Instructions", reverse_lazy("dashboard:instructions"))


class SendForm(forms.Form):
    """A new instruction; what the ledger refuses becomes an error of its field."""

    project = forms.ModelChoiceField(Project.objects.order_by("name"), to_field_name="name")
    agent = forms.CharField(max_length=agents.NAME_LENGTH)
    content = forms.CharField(strip=False, widget=forms.Textarea)
    max_retries = forms.IntegerField(min_value=0, max_value=MAX_RETRIES, required=False)
    priority = forms.BooleanField(required=False)
    plain = forms.BooleanField(required=False)

    def send(self, request: HttpRequest) -> Row | None:
        """Send the instruction and return its row, or None after adding the errors to the form."""
        values = self.cleaned_data
        try:
            agent = agents.get_by_name(values["agent"], project=values["project"])
            return instructions.send(
                agent,
                normalize_newlines(values["content"]),
                tracked=not values["plain"],
                max_retries=values["max_retries"],
                priority=values["priority"],
                stamp=stamp_of(request),
            )
        except UnknownAgent as refusal:
            self.add_error("agent", refusal.detail)
        except Invalid as refusal:
            field = refusal.more["errors"][0]["pointer"].split("/")[1]
            self.add_error(field if field in self.fields else None, refusal.detail)
        return None


@dataclass(frozen=True, slots=True)
class SendFields:
    """The form with the choices it offers, for its own page and for the dialog of the list."""

    form: SendForm
    known_agents: list[str]
    single_project: Project | None
    projects: list[Project]


def new(request: HtmxRequest) -> HttpResponse:
    visit = begin_visit(request, current="instructions")
    if request.method != "POST":
        initial = initial_values(request, visit.scope)
        return respond_with_form(visit, SendForm(initial=initial))
    form = SendForm(request.POST)
    row = form.send(request) if form.is_valid() else None
    if row is None:
        return respond_with_form(visit, form, status_code=422)
    if row["deduplicated"]:
        messages.warning(
            request, "An identical instruction is already pending. Nothing new was sent."
        )
    elif others := row.get("also_sent"):
        messages.success(
            request,
            f"Queued for each of the {len(others) + 1:,} members. Each gets it if it checks in.",
        )
    else:
        messages.success(
            request,
            f"Queued. {row['agent_name']} gets it if it checks in; delivery is not guaranteed.",
        )
    return redirect(address(row["id"], visit.scope))


def initial_values(request: HtmxRequest, scope: Scope) -> dict[str, Any]:
    project = scope.project or (scope.projects[0] if scope.projects else None)
    return {
        "project": project.name if project else "",
        "agent": request.GET.get("agent", ""),
        "max_retries": settings.TENFOUR["INSTRUCTION_MAX_RETRIES"],
    }


def respond_with_form(visit: Visit, form: SendForm, *, status_code: int = 200) -> HttpResponse:
    page = compose_page(
        title="New instruction",
        crumbs=(CRUMB,),
        status_code=status_code,
        send=list_send_fields(form, visit.scope),
    )
    return respond(visit, "instructions/form.html", "instructions/_new.html", page)


def list_send_fields(form: SendForm, scope: Scope) -> SendFields:
    return SendFields(
        form=form,
        known_agents=list_known_agents(scope.project),
        single_project=scope.projects[0] if len(scope.projects) == 1 else None,
        projects=scope.projects,
    )


@compiled
def list_known_agents(project: Project | None) -> QuerySet[Agent, str]:
    rows = of_project(Agent.objects.all(), project).order_by("name")
    return rows.values_list("name", flat=True).distinct()[:AGENTS_LISTED]


VERBS = by_slug(instruction_verbs.ADMIN)
act = build_action_view(__name__, VERBS, page="instruction")


def address(instruction_id: UUID, scope: Scope) -> str:
    return reverse("dashboard:instruction", args=[instruction_id]) + scope.query
