"""Import a plan: paste or upload it, preview the import, and confirm it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.charts.dependencies import key_of
from dashboard.frame.access import PAGES
from dashboard.frame.navigation import Scope
from dashboard.frame.rendering import HtmxRequest, Visit, begin_visit, compose_page, respond
from dashboard.plans.arrows import MARGIN, STEP, RowArrows, draw_arrows
from dashboard.plans.listing import PLANS
from ledger import planfile
from ledger.agents import NAME_LENGTH, UnknownAgent
from ledger.authorization.permissions import may
from ledger.errors import BadRequest, Refusal
from ledger.journal import stamp_of
from ledger.models import Project
from ledger.planfile import PlanTask
from ledger.planfile.model import MOST_BYTES, PART_LENGTH
from ledger.planfile.preview import PreviewRow, build_preview, list_general
from ledger.plans import editing as ledger_plans
from ledger.plans.alignment import Match
from ledger.plans.identity import PlanAmbiguous
from ledger.plans.import_diff import (
    CREATE,
    MERGE,
    REPLACE,
    ImportOptions,
    ImportResult,
    PlanChanged,
)
from ledger.schemas.plans import parse_pairs
from ledger.values.text import normalize_newlines
from retries.plans import importing

MODES = (
    (CREATE, "Stop and show an error"),
    (MERGE, "Merge: add new tasks and update tasks that have not started"),
    (REPLACE, "Replace: also abort tasks that are not in the file and have not started"),
)
EXAMPLE = """ref: 03-01
title: Ledger schema and backfill
tasks:
  - title: Add the tables
    agent: coder
    verify: {command: make test}
  - title: Backfill 2024
    agent: coder
    needs: task-1"""
DEEPEST = 12  # the deepest indent; deeper rows name their level
# the kinds of changes: their text for one task and for several, and their icon
DIFF_PARTS = (
    ("added", "will be added", "will be added", "plus"),
    ("changed", "will be updated", "will be updated", "pen"),
    ("aborted", "will be aborted", "will be aborted", "s-aborted"),
    (
        "untouched",
        "has started or finished and stays unchanged",
        "have started or finished and stay unchanged",
        "pause",
    ),
    ("left", "is not in the file and stays", "are not in the file and stay", "s-skipped"),
    ("same", "is unchanged", "are unchanged", "check"),
)


class ImportForm(forms.Form):
    """A plan, pasted or in a file, and how to import it."""

    project = forms.ModelChoiceField(Project.objects.order_by("name"), to_field_name="name")
    text = forms.CharField(required=False, strip=False)
    file = forms.FileField(required=False)
    # most plans in Markdown don't name an agent
    agent = forms.CharField(required=False, max_length=NAME_LENGTH)
    # checklists and files of other tools don't name a plan
    ref = forms.CharField(required=False, max_length=2 * PART_LENGTH + 1)
    # a Task Master file has several
    tag = forms.CharField(required=False, max_length=200)
    # pairs of file tasks and stored tasks that a merge can't match
    pairs = forms.CharField(required=False, max_length=20_000)
    # the answer to one question about the pairs
    pair = forms.CharField(required=False, max_length=20_000)
    mode = forms.ChoiceField(choices=MODES, required=False)
    register = forms.BooleanField(required=False)
    allow_missing_needs = forms.BooleanField(required=False)
    confirm_commands = forms.BooleanField(required=False)

    def clean(self) -> dict[str, Any]:
        # The preview passes the plan on as text, so a chosen file becomes text.
        values: dict[str, Any] = super().clean() or {}
        if file := values.get("file"):
            if file.size > MOST_BYTES:
                self.add_error(
                    "file", f"The file is too large: {file.size:,} of at most {MOST_BYTES:,} bytes."
                )
                return values
            try:
                values["text"] = planfile.decode(file.read())
            except BadRequest as error:
                self.add_error("file", f"{error.detail} Save it as UTF-8 and retry.")
        if not self.errors and not values.get("text", "").strip():
            self.add_error("text", "Paste a plan or choose a file.")
        values["text"] = normalize_newlines(values.get("text", ""))
        answers = (values.get("pairs", ""), values.get("pair", ""))
        values["pairs"] = ", ".join(filter(None, map(str.strip, answers)))
        return values


@dataclass(frozen=True, slots=True)
class DiffPart:
    """One kind of change with the refs of its tasks."""

    name: str
    text: str
    icon: str
    refs: list[str]


@dataclass(frozen=True, slots=True)
class PreviewLine:
    """A row of the preview, its arrows, and the stored task that it is under another ref."""

    row: PreviewRow
    arrows: RowArrows
    match: Match | None

    @property
    def indent(self) -> int:
        return min(self.row.level, DEEPEST)


@dataclass(frozen=True, slots=True)
class Preview:
    """The result of a dry run, with the tasks and their commands."""

    imported: ImportResult
    tasks: tuple[PlanTask, ...]
    parts: list[DiffPart]
    warnings: list[str]  # warnings without a line
    rows: list[PreviewLine]
    lanes: int
    arrows_width: int

    @property
    def commands(self) -> int:
        return sum(bool(task.payload.get("verify", {}).get("command")) for task in self.tasks)

    @property
    def proposed(self) -> int:
        # These commands run only after a person has confirmed them.
        return sum("proposed_command" in task.payload.get("verify", {}) for task in self.tasks)


@dataclass(frozen=True, slots=True)
class Question:
    """A started task that may be one of several of the file; each answer is a value of `pair`."""

    title: str
    state: str
    answers: list[tuple[str, str]]  # the pair, and the title in the file
    none: str


@dataclass(frozen=True, slots=True)
class ImportProblem:
    """Why a plan was refused, the field that has to change, and the places in the plan."""

    field: str
    title: str
    text: str
    places: list[str]
    details: list[str]
    questions: list[Question]


def new(request: HtmxRequest) -> HttpResponse:
    visit = begin_visit(request, current="plans")
    if request.method != "POST":
        return show(visit, ImportForm(initial=initial_values(visit.scope)))
    form = ImportForm(request.POST, request.FILES)
    if not form.is_valid():
        return show(visit, form, status=422)
    confirmed = "confirmed" in request.POST
    values = form.cleaned_data
    try:
        parsed = planfile.parse(
            values["text"].encode(),
            agent=values["agent"],
            ref=values["ref"],
            tag=values["tag"],
            allow_missing_needs=values["allow_missing_needs"],
        )
        with transaction.atomic():
            result = import_plan(visit, values, parsed, dry_run=not confirmed)
            if confirmed and values["confirm_commands"]:
                ids = [row["id"] for row in result.tasks]
                ledger_plans.confirm_commands(ids, stamp=stamp_of(request))
    except Refusal as refusal:
        return show(visit, form, problem=describe_refusal(refusal, values), status=422)
    if not confirmed:
        return show(visit, form, preview=preview_import(result, parsed))
    if result.unchanged:
        messages.success(request, "This plan was already imported. Nothing changed.")
    else:
        messages.success(request, f"Imported: {result.diff}.")
    return redirect(reverse("dashboard:plan", args=[result.plan.pk]) + visit.scope.query)


def import_plan(
    visit: Visit, values: Mapping[str, Any], parsed: planfile.ParsedPlan, *, dry_run: bool
) -> ImportResult:
    user = visit.request.user
    return importing.import_plan(
        values["project"],
        parsed.plan,
        options=ImportOptions(
            mode=values["mode"] or CREATE,
            dry_run=dry_run,
            register=values["register"],
            allow_missing_needs=values["allow_missing_needs"],
            changes_budgets=may(user, PAGES["budget_save"].permission, values["project"].pk),
            warnings=parsed.warnings,
            pairs=parse_pairs(values["pairs"]),
        ),
        stamp=stamp_of(visit.request),
    )


def preview_import(result: ImportResult, parsed: planfile.ParsedPlan) -> Preview:
    parts = []
    for name, one, many, icon in DIFF_PARTS:
        if refs := list(getattr(result.diff, name)):
            parts.append(DiffPart(name, one if len(refs) == 1 else many, icon, refs))
    rows = build_preview(
        result.file, text=parsed.text, warnings=result.warnings, changes=result.diff.effects
    )
    arrows, lanes = draw_arrows(rows)
    matches = {match.ref: match for match in result.matches}
    lines = [
        PreviewLine(row, each, matches.get(row.ref)) for row, each in zip(rows, arrows, strict=True)
    ]
    general = list_general(result.warnings)
    return Preview(result, parsed.plan.tasks, parts, general, lines, lanes, STEP * lanes + MARGIN)


REGISTER_HINT = "Use one of the nearest names, or check “Register unknown agents”."


def describe_refusal(refusal: Refusal, values: Mapping[str, Any]) -> ImportProblem:
    errors = refusal.more.get("errors") or []
    hint = REGISTER_HINT if isinstance(refusal, UnknownAgent) else refusal.hint
    details = [error["detail"] for error in errors if error["detail"] != refusal.detail]
    places = [error["pointer"] for error in errors if error["pointer"]]
    return ImportProblem(
        find_field(refusal, places, values),
        refusal.title(),
        " ".join(filter(None, (refusal.detail, hint))),
        places,
        details if not places else [],
        [ask(one) for one in refusal.more.get("ambiguous", [])],
    )


def ask(one: Mapping[str, Any]) -> Question:
    """Return the question that asks which task of the file a started task is."""
    stored = key_of(one["ref"])
    places = [(key_of(each["file_ref"]), each["title"]) for each in one["candidates"]]
    return Question(
        one["title"],
        one["state"],
        [(f"{own}={stored}", title) for own, title in places],
        ", ".join(f"{own}=new" for own, _ in places),
    )


def find_field(refusal: Refusal, places: Sequence[str], values: Mapping[str, Any]) -> str:
    """Return the form's field that a refusal is about."""
    if places and all(place.endswith("/agent") for place in places):
        is_default = values["agent"] and f"'{values['agent']}'" in refusal.detail
        if is_default or not isinstance(refusal, UnknownAgent):
            return "agent"
    if values["ref"] and places == ["/ref"]:
        return "ref"
    if isinstance(refusal, PlanChanged):
        return "mode"
    if isinstance(refusal, PlanAmbiguous) or places == ["/pairs"]:
        return "pairs"
    if places == ["/tag"]:
        return "tag"
    return "text"


def initial_values(scope: Scope) -> dict[str, Any]:
    project = scope.project or (scope.projects[0] if scope.projects else None)
    return {"project": project.name if project else "", "mode": CREATE}


def show(
    visit: Visit,
    form: ImportForm,
    *,
    preview: Preview | None = None,
    problem: ImportProblem | None = None,
    status: int = 200,
) -> HttpResponse:
    values = getattr(form, "cleaned_data", {})
    projects = visit.scope.projects
    page = compose_page(
        title="Import a plan",
        crumbs=[PLANS.crumb],
        status_code=status,
        form=form,
        text=values.get("text", ""),
        pairs=values.get("pairs", ""),  # the answers, with the one just given
        mode=values.get("mode") or CREATE,
        modes=MODES,
        example=EXAMPLE,
        single_project=projects[0] if len(projects) == 1 else None,
        preview=preview,
        problem=problem,
    )
    return respond(visit, "plans/new.html", "plans/_new.html", page)
