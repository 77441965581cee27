"""Import the transcript that a coding agent wrote: upload a file, and read it as a session."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.frame.navigation import Scope
from dashboard.frame.rendering import HtmxRequest, Visit, begin_visit, compose_page, respond
from dashboard.sessions.listing import SESSIONS, TRACKERS
from dashboard.wording.formatting import counted
from ledger.errors import Refusal
from ledger.journal import stamp_of
from ledger.models import Agent, Project
from ledger.models.session import TrackerName
from ledger.sessions.importing import Imported, import_transcript
from ledger.sessions.transcripts.model import Transcript
from ledger.sessions.transcripts.reading import read_transcript
from retries.sessions import buffering

BYTES = 8 * 1024 * 1024
LINES_SHOWN = 20
AGENTS_SHOWN = 200


class ImportForm(forms.Form):
    """A transcript, its agent, and the tracker that looks for to-dos in it."""

    project = forms.ModelChoiceField(Project.objects.order_by("name"), to_field_name="name")
    agent = forms.CharField(error_messages={"required": "Choose the agent that wrote the file."})
    tracker = forms.ChoiceField(choices=list(TRACKERS.items()))
    file = forms.FileField(
        error_messages={
            "required": "Choose the transcript file.",
            "empty": "The file is empty. Choose the agent's transcript file.",
        }
    )

    def clean(self) -> dict[str, Any]:
        values: dict[str, Any] = super().clean() or {}
        file, project = values.get("file"), values.get("project")
        if file and file.size > BYTES:
            self.add_error(
                "file",
                f"The file has {file.size:,} bytes; at most {BYTES:,} can be uploaded here. "
                "Import it with `tenfour session import`, which sends it in parts.",
            )
        if project and (name := values.get("agent")):
            agent = Agent.objects.filter(project=project, name=name.replace("\0", "")).first()
            if agent is None:
                self.add_error("agent", f"There is no agent “{name[:80]}” in {project}.")
            values["agent"] = agent
        return values


def new(request: HtmxRequest) -> HttpResponse:
    visit = begin_visit(request, current="sessions")
    if request.method != "POST":
        return show(visit, ImportForm(initial=initial_values(visit.scope)))
    form = ImportForm(request.POST, request.FILES)
    if not form.is_valid():
        return show(visit, form, status=422)
    values = form.cleaned_data
    try:
        imported = import_transcript(
            values["agent"],
            read_transcript(values["file"].read()),
            tracker=values["tracker"],
            stamp=stamp_of(request),
        )
    except Refusal as refusal:
        form.add_error("file", refusal.detail)
        return show(visit, form, status=422)
    buffering.announce(imported.stored)
    report_result(request, imported)
    return redirect(reverse("dashboard:session", args=[imported.session.pk]) + visit.scope.query)


def report_result(request: HtmxRequest, imported: Imported) -> None:
    added = counted(imported.added, "new message")
    if skipped := describe_skipped(imported.transcript):
        messages.warning(request, skipped)
    if cut := imported.transcript.cut_line:
        messages.warning(
            request,
            f"Imported {added}. Line {cut:,} is cut off: import the file again when it is "
            "complete. Only new messages are added.",
        )
    elif imported.added:
        messages.success(request, f"Imported {added}.")
    else:
        messages.success(request, "This file was imported before. It has no new messages.")


def describe_skipped(transcript: Transcript) -> str:
    """Return which lines of a file can't be read; empty if all can."""
    if not transcript.skipped:
        return ""
    named = transcript.bad_lines[:LINES_SHOWN]
    numbers = ", ".join(f"{each.line:,}" for each in named)
    more = ", and more" if transcript.skipped > len(named) else ""
    were = "was" if transcript.skipped == 1 else "were"
    return (
        f"{counted(transcript.skipped, 'line')} can't be read and {were} left out: "
        f"{numbers}{more}. Line {named[0].line:,}: {named[0].detail}"
    )


def initial_values(scope: Scope) -> dict[str, Any]:
    project = scope.project or (scope.projects[0] if scope.projects else None)
    return {"project": project.name if project else ""}


def list_agents(scope: Scope) -> list[tuple[str, str]]:
    rows = Agent.objects.workers().order_by("project__name", "name")
    if scope.project:
        rows = rows.filter(project=scope.project)
    return list(rows.values_list("name", "project__name")[:AGENTS_SHOWN])


def show(visit: Visit, form: ImportForm, *, status: int = 200) -> HttpResponse:
    projects = visit.scope.projects
    page = compose_page(
        title="Import a transcript",
        crumbs=[SESSIONS.crumb],
        status_code=status,
        form=form,
        agents=list_agents(visit.scope),
        trackers=list(TRACKERS.items()),
        tracker=form.data.get("tracker") or TrackerName.TODO.value,
        agent=form.data.get("agent", ""),
        single_project=projects[0] if len(projects) == 1 else visit.scope.project,
    )
    return respond(visit, "sessions/import.html", "sessions/_import.html", page)
