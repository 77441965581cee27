"""The form of a permission rule: what it would have decided is shown before it is saved."""

from dataclasses import dataclass, field

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.frame.rendering import Crumb, HtmxRequest, Visit, begin_visit, compose_page, respond
from dashboard.lists.query_box import as_id
from dashboard.lists.shared_queries import of_project
from dashboard.permissions import queries
from dashboard.permissions.views import CRUMBS
from ledger.errors import Invalid, Refusal
from ledger.journal import stamp_of
from ledger.models import Agent, Project
from ledger.values.text import normalize_newlines
from retries.escalations import answering
from retries.escalations.choices import Choice
from retries.models import Escalation, PermissionRule
from retries.permissions import rules
from retries.permissions.rules import Trial
from retries.states import Answer, PermissionState

AGENTS_LISTED = 200
REQUESTS_SHOWN = 10
TOOLS = ("Bash", "Edit", "Write", "MultiEdit", "Read", "WebFetch", "apply_patch")
FIELDS = ("tool", "matcher", "verdict", "message", "agent")
UNTRIED = "Nothing was saved: look at what the rule would have decided, then save it."


@dataclass(frozen=True, slots=True)
class RuleForm:
    """The values that a person typed, and their errors, by field."""

    values: dict[str, str]
    errors: dict[str, str] = field(default_factory=dict)

    @property
    def allows(self) -> bool:
        return self.values.get("verdict") != "deny"

    @property
    def fingerprint(self) -> str:
        # The message does not change what a rule decides.
        return "\n".join(self.values.get(name, "").strip() for name in FIELDS if name != "message")


def new(request: HtmxRequest) -> HttpResponse:
    visit = begin_visit(request, current="settings")
    given = request.POST if request.method == "POST" else request.GET
    id = as_id(given.get("escalation", ""))
    escalation = queries.find_request(id, visit.scope.project) if id else None
    form = read_form(given.dict(), escalation)
    project = find_project(given.get("in", ""), escalation, visit)
    trial = attempt_trial(form, project, visit) if form.values["tool"] else None
    if request.method == "POST" and "save" in request.POST and trial:
        # A rule can be saved only after its trial was shown.
        if normalize_newlines(request.POST.get("tried", "")) != form.fingerprint:
            form.errors["form"] = UNTRIED
        elif rule := save(request, form, project):
            return finish(visit, rule, escalation)
    return show(visit, form, project, trial, escalation)


def read_form(given: dict[str, str], escalation: Escalation | None) -> RuleForm:
    values = {name: normalize_newlines(given.get(name, "")) for name in FIELDS}
    request = escalation.permission if escalation else None
    if request and "tool" not in given:
        values |= {"tool": request.tool, "matcher": request.proposed or ""}
    # the call is allowed together with the rule
    return RuleForm(values | ({"verdict": "allow"} if request else {}))


def find_project(name: str, escalation: Escalation | None, visit: Visit) -> Project:
    if escalation:
        return escalation.project
    return visit.scope.find_named(name) or visit.scope.first


def find_agent(form: RuleForm, project: Project) -> Agent | None:
    """Return the agent that the rule is for, or None for all; raise Invalid."""
    name = form.values["agent"].strip()
    if not name:
        return None
    named = Agent.objects.filter(project=project, name=name) if name.isprintable() else None
    agent = named.first() if named else None
    if agent is None:
        raise Invalid("/agent", f"There is no agent “{name[:64]}” in {project.name}.")
    return agent


def attempt_trial(form: RuleForm, project: Project, visit: Visit) -> Trial | None:
    try:
        return rules.try_rule(
            project_id=project.pk,
            agent=find_agent(form, project),
            tool=form.values["tool"],
            matcher=form.values["matcher"],
            allows=form.allows,
            now=visit.now,
        )
    except Invalid as refusal:
        note_refusal(form, refusal)
        return None


def save(request: HtmxRequest, form: RuleForm, project: Project) -> PermissionRule | None:
    try:
        return rules.create_rule(
            project_id=project.pk,
            agent=find_agent(form, project),
            tool=form.values["tool"],
            matcher=form.values["matcher"],
            allows=form.allows,
            message="" if form.allows else form.values["message"],
            stamp=stamp_of(request),
        )
    except Invalid as refusal:
        note_refusal(form, refusal)
        return None


def note_refusal(form: RuleForm, refusal: Invalid) -> None:
    for each in refusal.more["errors"]:
        name = each["pointer"].removeprefix("/")
        form.errors[name if name in FIELDS else "form"] = each["detail"]


def finish(visit: Visit, rule: PermissionRule, escalation: Escalation | None) -> HttpResponse:
    """Answer the call that the rule was made from, and open the page that comes next."""
    request = visit.request
    if escalation is None:
        messages.success(request, f"In force: {rule}.")
        return redirect(reverse("dashboard:permission_rule", args=[rule.pk]) + visit.scope.query)
    try:
        answering.answer(
            escalation.pk,
            Choice(Answer.ALLOW),
            among=Escalation.objects.filter(project=rule.project_id),
            stamp=stamp_of(request),
            channel="page",
        )
    except Refusal as refusal:
        messages.warning(request, f"The rule is in force. This call was not answered: {refusal}")
    else:
        messages.success(request, f"Allowed, and in force: {rule}.")
    return redirect(reverse("dashboard:escalation", args=[escalation.pk]) + visit.scope.query)


def show(
    visit: Visit,
    form: RuleForm,
    project: Project,
    trial: Trial | None,
    escalation: Escalation | None,
) -> HttpResponse:
    names = of_project(Agent.objects.all(), project).order_by("name")
    back = reverse("dashboard:escalation", args=[escalation.pk]) if escalation else ""
    heading = "Allow and remember" if escalation else "New permission rule"
    crumbs = (Crumb("Escalations", reverse("dashboard:escalations")),) if escalation else CRUMBS
    page = compose_page(
        title=heading,
        crumbs=crumbs,
        status_code=422 if form.errors else 200,
        form=form,
        project=project,
        projects=visit.scope.projects,
        agents=list(names.values_list("name", flat=True)[:AGENTS_LISTED]),
        tools=TOOLS,
        trial=trial,
        # the first requests that it would have decided
        with_trial=trial.newest[:REQUESTS_SHOWN] if trial else [],
        # the state of a request that a person decided the other way
        against=PermissionState.DENIED if form.allows else PermissionState.ALLOWED,
        escalation=escalation,  # the escalation whose call the rule allows
        back=(back or reverse("dashboard:permission_rules")) + visit.scope.query,
    )
    return respond(visit, "permissions/form.html", "permissions/_form_page.html", page)
