"""Show and read the form of a rule, with its trial."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.form_values import read_whole_number
from dashboard.frame.navigation import Scope
from dashboard.frame.rendering import Crumb, HtmxRequest, Visit, begin_visit, compose_page, respond
from dashboard.lists.shared_queries import of_project
from dashboard.standing_instructions import queries
from dashboard.standing_instructions.form import RuleForm, empty_form, form_of, posted_form
from dashboard.standing_instructions.recipes import BY_NAME, RECIPES, fill
from dashboard.standing_instructions.views import CRUMBS
from ledger.errors import Refusal, VersionMismatch
from ledger.journal import stamp_of
from ledger.models import Agent, Project, StandingInstruction
from ledger.standing_instructions import editing
from ledger.standing_instructions.editing import RuleSpec
from ledger.standing_instructions.trial import Sample, Trial, try_rule
from ledger.values.text import normalize_newlines, truncate

AGENTS_LISTED = 200
SAMPLE_LENGTH = 20_000
LABEL_LENGTH = 74


@dataclass(frozen=True, slots=True)
class SampleChoice:
    value: str
    label: str
    text: str


@dataclass(frozen=True, slots=True)
class EarlierTrial:
    """The rule's reaction to a signal that triggered a rule before."""

    label: str
    trial: Trial

    @property
    def because(self) -> str:
        return next((each.text for each in self.trial.conditions if not each.holds), "")


def new(request: HtmxRequest) -> HttpResponse:
    visit = begin_visit(request, current="instructions")
    project = read_project(request.POST.get("project", ""), visit.scope)
    if request.method != "POST":
        return show(visit, empty_form(), project)
    form = posted_form(request.POST.dict())
    if not {"save", "draft"} & set(request.POST):
        return preview(visit, form, project)
    spec = form.read(project)
    if spec:
        try:
            made = editing.create_rule(
                spec, project=project, paused="draft" in request.POST, stamp=stamp_of(request)
            )
        except Refusal as refusal:
            note_refusal(form, refusal)
        else:
            said = "Saved as a draft. It sends nothing." if made.paused else "The rule is on."
            messages.success(request, said)
            return redirect(reverse("dashboard:rule", args=[made.id]) + visit.scope.query)
    return show(visit, form, project, status_code=422)


def edit(request: HtmxRequest, rule_id: UUID) -> HttpResponse:
    visit = begin_visit(request, current="instructions")
    row = queries.find_rule(rule_id)
    if row is None or row.retired_at:
        raise Http404(f"There is no rule {rule_id} to change.")
    if request.method != "POST":
        return show(visit, form_of(row), row.project, row=row)
    form = posted_form(request.POST.dict())
    if "save" not in request.POST:
        return preview(visit, form, row.project, row=row)
    spec = form.read(row.project)
    if spec:
        try:
            editing.update_rule(
                row.id,
                spec,
                project_id=row.project_id,
                version=read_version(form),
                stamp=stamp_of(request),
            )
        except VersionMismatch:
            form.errors["form"] = (
                "Someone has changed this rule meanwhile. Open it again and repeat your change."
            )
        except Refusal as refusal:
            note_refusal(form, refusal)
        else:
            messages.success(request, "The rule is changed.")
            return redirect(reverse("dashboard:rule", args=[row.id]) + visit.scope.query)
    return show(visit, form, row.project, row=row, status_code=422)


def read_project(name: str, scope: Scope) -> Project:
    return scope.find_named(name) or scope.first


def read_version(form: RuleForm) -> int:
    return read_whole_number(form.values.get("version", "")) or 0


def note_refusal(form: RuleForm, refusal: Refusal) -> None:
    if refusal.more.get("errors"):
        form.note(refusal)  # type: ignore[arg-type] # an Invalid
    else:
        form.errors["form"] = refusal.detail


# ---- what only changes the form: a recipe, another condition, a trial


def preview(
    visit: Visit, form: RuleForm, project: Project, *, row: StandingInstruction | None = None
) -> HttpResponse:
    posted = visit.request.POST
    chosen = BY_NAME.get(posted.get("recipe", ""))
    if chosen:
        form.values = fill(form.values, before=posted.get("from_recipe", ""), recipe=chosen)
        return show(visit, form, project, row=row, recipe=chosen.name)
    form.rows = len(form.match) + 1 if "more" in posted else form.rows
    form.expect_rows = len(form.expected) + 1 if "more_expect" in posted else form.expect_rows
    recipe = posted.get("from_recipe", "")
    if "try" not in posted:
        return show(visit, form, project, row=row, recipe=recipe)
    return show_trial(visit, form, project, row=row, recipe=recipe)


def show_trial(
    visit: Visit, form: RuleForm, project: Project, *, row: StandingInstruction | None, recipe: str
) -> HttpResponse:
    # Nothing is sent and nothing is stored.
    text = pick_sample(visit, project, recipe)
    spec, sample, problem = form.read(project), None, ""
    try:
        sample = read_sample(text)
    except ValueError as error:
        problem = str(error)
    trial, earlier = None, []
    if spec and sample:
        trial = attempt_trial(form, spec, sample, project)
    if spec and trial:
        earlier = try_earlier(form, spec, project, besides=sample)
    status = 200 if trial else 422
    return show(
        visit,
        form,
        project,
        row=row,
        recipe=recipe,
        sample=text,
        trial=trial,
        trial_error=problem,
        earlier=earlier,
        status_code=status,
    )


def attempt_trial(form: RuleForm, spec: RuleSpec, sample: Sample, project: Project) -> Trial | None:
    try:
        return try_rule(spec, sample, project_id=project.id)
    except Refusal as refusal:
        note_refusal(form, refusal)
        return None


def try_earlier(
    form: RuleForm, spec: RuleSpec, project: Project, *, besides: Sample | None
) -> list[EarlierTrial]:
    found = []
    for each in queries.list_samples(project):
        sample = Sample(type=each["type"], data=each["data"])
        trial = None if sample == besides else attempt_trial(form, spec, sample, project)
        if trial:
            found.append(EarlierTrial(label_of(each), trial))
    return found


def label_of(sample: dict[str, Any]) -> str:
    what = sample["data"].get("path") or sample["data"].get("line") or ""
    return truncate(f"{sample['type']} {what}".strip(), LABEL_LENGTH)


def pick_sample(visit: Visit, project: Project, recipe: str) -> str:
    """Return the chosen sample, or the typed text if the person has edited it."""
    posted = visit.request.POST
    typed, shown = (normalize_newlines(posted.get(name, "")) for name in ("sample", "shown"))
    chosen = {each.value: each.text for each in list_samples(project, recipe)}
    if typed != shown or posted.get("from", "") not in chosen:
        return typed[:SAMPLE_LENGTH]
    return chosen[posted["from"]]


def read_sample(text: str) -> Sample:
    """Return the sample in a JSON text; raise ValueError with a sentence."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"The sample is not valid JSON: {error}") from error
    if not isinstance(value, dict) or not isinstance(value.get("data", {}), dict):
        raise ValueError('The sample is an object such as {"type": "fs_write", "data": {}}.')
    return Sample(
        event=str(value.get("event", "signal")),
        type=str(value.get("type", "")),
        data=value.get("data", {}),
    )


def list_samples(project: Project, recipe: str) -> list[SampleChoice]:
    found = []
    if recipe in BY_NAME:
        found.append(
            SampleChoice("recipe", "sample of this recipe", show_sample(BY_NAME[recipe].sample))
        )
    for at, sample in enumerate(queries.list_samples(project)):
        found.append(SampleChoice(f"last-{at}", f"last: {label_of(sample)}", show_sample(sample)))
    return found


def show_sample(sample: dict[str, Any]) -> str:
    return json.dumps(sample, indent=1, ensure_ascii=False)


def show(
    visit: Visit,
    form: RuleForm,
    project: Project,
    *,
    row: StandingInstruction | None = None,
    recipe: str = "",
    sample: str | None = None,
    trial: Trial | None = None,
    trial_error: str = "",
    earlier: Sequence[EarlierTrial] = (),
    status_code: int = 200,
) -> HttpResponse:
    samples = list_samples(project, recipe)
    if sample is None:
        sample = samples[0].text if samples else show_sample(RECIPES[0].sample)
    heading = "Edit rule" if row else "New rule"
    names = of_project(Agent.objects.all(), project).order_by("name")
    page = compose_page(
        title=f"{heading} · Standing instructions",
        heading=heading,
        crumbs=(*CRUMBS, Crumb(row.content[:60], reverse("dashboard:rule", args=[row.id])))
        if row
        else CRUMBS,
        form=form,
        row=row,
        recipes=() if row else RECIPES,
        recipe=recipe,
        projects=[row.project] if row else visit.scope.projects,
        project=project,
        agent_names=list(names.values_list("name", flat=True)[:AGENTS_LISTED]),
        samples=samples,
        sample=sample,
        trial=trial,
        trial_error=trial_error,
        earlier=list(earlier),
        status_code=status_code,
    )
    return respond(
        visit, "standing_instructions/form.html", "standing_instructions/_form_page.html", page
    )
