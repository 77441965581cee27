"""The page of types of tasks: what waits of each, and which ones a person has paused."""

from collections import Counter
from dataclasses import dataclass
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.actions import warn_refused
from dashboard.frame.rendering import HtmxRequest, begin_visit, compose_page, respond
from dashboard.lists.known_names import SOURCES
from dashboard.tasks.views import CRUMB
from ledger.errors import Invalid, Refusal
from ledger.journal import stamp_of
from ledger.models import Project, Task
from ledger.states import TaskState
from ledger.tasks import type_pauses
from ledger.tasks.type_pauses import TypePause

COUNTED = 10_000  # open tasks that are counted by type
LISTED = 100
WAITING = (TaskState.QUEUED, TaskState.RETRY)


@dataclass(frozen=True, slots=True)
class TypeRow:
    """A type with the number of its tasks that wait and that run."""

    pause: TypePause
    waiting: int
    running: int
    query: str  # finds its waiting tasks in the list


def index(request: HtmxRequest) -> HttpResponse:
    visit = begin_visit(request, current="tasks")
    single = visit.scope.projects[0] if len(visit.scope.projects) == 1 else None
    project = visit.scope.project or single
    counts = count_open(project) if project else Counter()
    page = compose_page(
        title="Types of tasks",
        crumbs=(CRUMB,),
        project=project,
        projects=visit.scope.projects,
        rows=list_rows(project, counts) if project else [],
        is_cut=counts.total() >= COUNTED,
    )
    return respond(visit, "tasks/types.html", "tasks/_types.html", page)


def count_open(project: Project) -> Counter[tuple[str, str]]:
    rows = Task.objects.filter(project=project, state__in=(*WAITING, TaskState.RUNNING))
    return Counter(rows.order_by().values_list("type", "state")[:COUNTED])


def list_rows(project: Project, counts: Counter[tuple[str, str]]) -> list[TypeRow]:
    """Return the paused types, then those with open tasks, then those of the newest tasks."""
    paused = {each.type: each for each in type_pauses.list_pauses(project.pk)}
    found = sorted({kind for kind, _ in counts}), sorted(set(SOURCES["type"].list(project)))
    names = list(dict.fromkeys([*paused, *found[0], *found[1]]))[: LISTED + len(paused)]
    return [
        TypeRow(
            paused.get(name) or TypePause(name),
            sum(counts[name, state] for state in WAITING),
            counts[name, TaskState.RUNNING],
            urlencode({"q": f"type:{name}", "project": project.name}),
        )
        for name in names
    ]


def act(request: HtmxRequest, verb: str) -> HttpResponse:
    visit = begin_visit(request, current="tasks")
    single = visit.scope.projects[0] if len(visit.scope.projects) == 1 else None
    project = visit.scope.project or single
    if project is None or verb not in ("pause", "resume"):
        raise Http404("Choose a project first.")
    name = request.POST.get("type", "").strip()
    try:
        if not name:
            raise Invalid("/type", "Enter a type.")
        row, is_changed = type_pauses.set_paused(
            name,
            paused=verb == "pause",
            project_id=project.pk,
            note=request.POST.get("note", ""),
            stamp=stamp_of(request),
        )
    except Refusal as refusal:
        warn_refused(request, refusal)
    else:
        now = "is paused" if row.paused else "is active"
        if is_changed:
            more = " Agents get no more of its tasks; running tasks continue." if row.paused else ""
            messages.success(request, f"The type {row.type} {now}.{more}")
        else:
            messages.warning(request, f"Nothing changed. The type {row.type} {now} already.")
    return redirect(reverse("dashboard:task_types") + visit.scope.query)
