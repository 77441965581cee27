"""A plan imported on the page: pasted or uploaded, shown as a dry run, then made."""

from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from dashboard import rendering
from dashboard.access import operators_only
from dashboard.navigation import Scope, read_scope
from dashboard.plans.views import CRUMB
from dashboard.rendering import HtmxRequest
from ledger import planfile
from ledger.agents import NAME_LENGTH
from ledger.errors import Refusal
from ledger.journal import person
from ledger.models import Project
from ledger.planfile import PlanTask
from ledger.planfile.model import BYTES
from ledger.plans import editing as ledger_plans
from ledger.plans.import_diff import CREATE, MERGE, REPLACE, ImportOptions, ImportResult
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
LISTS = (
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
    """A plan file, pasted or chosen, and what is done where it meets what is there."""

    project = forms.ModelChoiceField(Project.objects.order_by("name"), to_field_name="name")
    text = forms.CharField(required=False, strip=False)
    file = forms.FileField(required=False)
    # for tasks that name none, as most plans in Markdown do not
    agent = forms.CharField(required=False, max_length=NAME_LENGTH)
    mode = forms.ChoiceField(choices=MODES, required=False)
    register = forms.BooleanField(required=False)
    allow_missing_needs = forms.BooleanField(required=False)
    confirm_commands = forms.BooleanField(required=False)

    def clean(self) -> dict[str, Any]:
        """A file that was chosen is read into the text, which the preview carries on."""
        values: dict[str, Any] = super().clean() or {}
        if file := values.get("file"):
            if file.size > BYTES:
                self.add_error(
                    "file", f"The file is too large: {file.size:,} of at most {BYTES:,} bytes."
                )
                return values
            try:
                values["text"] = file.read().decode("utf-8-sig")
            except UnicodeDecodeError as error:
                self.add_error(
                    "file",
                    f"The file is not UTF-8 (byte {error.start}). Save it as UTF-8 and retry.",
                )
        if not self.errors and not values.get("text", "").strip():
            self.add_error("text", "Paste a plan or choose a file.")
        values["text"] = values.get("text", "").replace("\r\n", "\n")
        return values


@dataclass(frozen=True, slots=True)
class Part:
    """One list of the diff."""

    name: str
    text: str
    icon: str
    refs: list[str]


@dataclass(frozen=True, slots=True)
class Preview:
    """What an import would do, and what its tasks would run."""

    imported: ImportResult
    tasks: tuple[PlanTask, ...]
    parts: list[Part]

    @property
    def commands(self) -> int:
        return sum(bool(task.payload.get("verify", {}).get("command")) for task in self.tasks)

    @property
    def proposed(self) -> int:
        """Commands that stood in prose: nobody has said to run them."""
        return sum("proposed_command" in task.payload.get("verify", {}) for task in self.tasks)


@require_http_methods(["GET", "HEAD", "POST"])
@operators_only
def new(request: HtmxRequest) -> HttpResponse:
    """The form, what the import would do, and the import."""
    scope = read_scope(request)
    if request.method != "POST":
        return page(request, ImportForm(initial=started(scope)), scope)
    form = ImportForm(request.POST, request.FILES)
    if not form.is_valid():
        return page(request, form, scope, status=422)
    sure = "confirmed" in request.POST
    try:
        values = form.cleaned_data
        parsed = planfile.parse(values["text"].encode(), agent=values["agent"])
        with transaction.atomic():
            done = imported(request, form, parsed, dry_run=not sure)
            if sure and values["confirm_commands"]:
                ids = [row["id"] for row in done.tasks]
                ledger_plans.confirm_commands(ids, actor=person(request.user))
    except Refusal as refusal:
        return page(request, form, scope, refusal=refusal, status=422)
    if not sure:
        return page(request, form, scope, preview=preview(done, parsed.plan.tasks))
    said = (
        "This plan was already imported. Nothing changed."
        if done.unchanged
        else f"Imported: {done.diff}."
    )
    messages.success(request, said)
    return redirect(reverse("dashboard:plan", args=[done.plan.pk]) + scope.query)


def imported(
    request: HtmxRequest, form: ImportForm, parsed: planfile.ParsedPlan, *, dry_run: bool
) -> ImportResult:
    values = form.cleaned_data
    return importing.import_plan(
        values["project"],
        parsed.plan,
        options=ImportOptions(
            mode=values["mode"] or CREATE,
            dry_run=dry_run,
            register=values["register"],
            allow_missing_needs=values["allow_missing_needs"],
            warnings=parsed.warnings,
        ),
        actor=person(request.user),
        request_id=request.id,  # type: ignore[attr-defined]
    )


def preview(done: ImportResult, tasks: tuple[PlanTask, ...]) -> Preview:
    parts = []
    for name, one, many, icon in LISTS:
        if refs := list(getattr(done.diff, name)):
            parts.append(Part(name, one if len(refs) == 1 else many, icon, refs))
    return Preview(done, tasks, parts)


def started(scope: Scope) -> dict[str, Any]:
    project = scope.project or (scope.projects[0] if scope.projects else None)
    return {"project": project.name if project else "", "mode": CREATE}


def page(
    request: HtmxRequest, form: ImportForm, scope: Scope, *, status: int = 200, **more: Any
) -> HttpResponse:
    values = getattr(form, "cleaned_data", {})
    context = {
        "now": timezone.now(),
        "title": "Import a plan",
        "heading": "Import a plan",
        "crumbs": [CRUMB],
        "form": form,
        "text": values.get("text", ""),
        "mode": values.get("mode") or CREATE,
        "modes": MODES,
        "example": EXAMPLE,
        "single_project": scope.projects[0] if len(scope.projects) == 1 else None,
        **more,
    }
    response = rendering.respond_with(
        request, "plans/new.html", "plans/_new.html", context, scope=scope, current="plans"
    )
    response.status_code = status
    return response
