"""The form of a new task, filled from the last tasks of its type."""

import json
from collections.abc import Mapping
from secrets import token_hex
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from pydantic import ValidationError

from dashboard.frame.access import may_open
from dashboard.frame.navigation import Scope
from dashboard.frame.rendering import HtmxRequest, Visit, begin_visit, compose_page, respond
from dashboard.lists.known_names import SOURCES
from dashboard.lists.query_box import as_id
from dashboard.tasks.forms.fields import (
    NO_BUDGET,
    PayloadField,
    TermsForm,
    add_refusal,
    box,
    format_payload,
    list_known_agents,
    read_budget,
)
from dashboard.tasks.views import CRUMB
from ledger import idempotency
from ledger.api.tasks import enqueue_by_hand
from ledger.errors import Refusal
from ledger.idempotency import StoredResponse
from ledger.journal import stamp_of
from ledger.models import Project, Task
from ledger.schemas.tasks import TaskIn
from ledger.secrets.redaction import MASKED
from ledger.states import EvidenceLevel
from ledger.tasks.spec import TITLE_LENGTH

READ = 1_000  # the newest tasks among which those of a type are found
COMPARED = 20  # tasks of the type whose payloads are compared
OFFERED = 5
TYPES_OFFERED = 100
EVIDENCE = {
    "": "As its project says",
    EvidenceLevel.RECORD: "Record: nothing",
    EvidenceLevel.ASK: "Ask: a claim without a check is sent back once",
    EvidenceLevel.REQUIRE: "Require: without proof, a person must accept it",
}
TERMS = ("priority", "not_before", "max_attempts", "timeout_s", "evidence", "budget")
# fields that an earlier task of the type fills in
COPIED = ("title", "priority", "max_attempts", "timeout_s", "evidence")


class NewTaskForm(TermsForm):
    """A new task; the API's schema and the ledger check it, and errors stand at their fields."""

    project = forms.ModelChoiceField(Project.objects.order_by("name"), to_field_name="name")
    key = forms.CharField(max_length=32, required=False)
    type = box(forms.CharField, "Type", list="task-types", maxlength=64)
    title = box(forms.CharField, "Title", maxlength=TITLE_LENGTH)
    payload = PayloadField(required=False)
    priority = box(forms.IntegerField, "Priority", type="number", placeholder="0")
    timeout_s = box(forms.IntegerField, "Longest attempt, in seconds", type="number", min=1)
    evidence = forms.ChoiceField(
        label="Evidence",
        choices=list(EVIDENCE.items()),
        required=False,
        widget=forms.Select(attrs={"class": "input"}),
    )

    @property
    def terms(self) -> list[forms.BoundField]:
        return [self[name] for name in TERMS]

    def send(self, request: HtmxRequest) -> tuple[UUID, bool] | None:
        """Return the task, and whether it was created before; None after adding the errors."""
        values = dict(self.cleaned_data)
        project, key = values.pop("project"), values.pop("key") or token_hex(16)
        if values["budget"] and not may_open(request.user, "budget_save"):
            self.add_error("budget", NO_BUDGET)
            return None
        try:
            body = self.build_body(values)
            return create_once(request, project, body, key=key) if body else None
        except Refusal as refusal:
            add_refusal(self, refusal)
        return None

    def build_body(self, values: Mapping[str, Any]) -> TaskIn | None:
        given = {name: value for name, value in values.items() if value not in (None, "")}
        if "budget" in given:
            given["budget"] = read_budget(given["budget"])
        try:
            return TaskIn.model_validate(given)
        except ValidationError as error:
            for each in error.errors():
                self.add_error(str(each["loc"][0]), f"{each['msg']}.")
        return None


def create_once(
    request: HtmxRequest, project: Project, body: TaskIn, *, key: str
) -> tuple[UUID, bool]:
    """Create the task of a form; the same form sent again gets the same task."""
    stamp = stamp_of(request)
    content = f"{request.user.pk} {project.pk} {key} {body.model_dump_json()}"

    def create() -> StoredResponse:
        row = enqueue_by_hand(body, project=project, stamp=stamp)
        return StoredResponse(201, json.dumps(str(row["id"])))

    stored = idempotency.run_once(
        f"form {uuid5(NAMESPACE_URL, content)}",
        token_id=None,
        fingerprint=b"",
        now=stamp.at,
        work=create,
    )
    return UUID(json.loads(stored.body)), stored.replayed


def new(request: HtmxRequest) -> HttpResponse:
    visit = begin_visit(request, current="tasks")
    given = request.POST if request.method == "POST" else request.GET
    project = find_project(given.get("project", ""), visit.scope)
    if request.method != "POST" or "fill" in request.POST:
        return show_filled(visit, project)
    form = NewTaskForm(request.POST, auto_id="task-%s")
    made = form.send(request) if form.is_valid() else None
    if made is None:
        return show(visit, form, project, status=422)
    task_id, is_old = made
    if is_old:
        messages.warning(request, "This form was sent before. Its task is shown here.")
    else:
        messages.success(request, "The task is enqueued.")
    return redirect(reverse("dashboard:task", args=[task_id]) + visit.scope.query)


def find_project(name: str, scope: Scope) -> Project | None:
    named = next((each for each in scope.projects if each.name == name), None)
    return named or scope.project or next(iter(scope.projects), None)


def show_filled(visit: Visit, project: Project | None) -> HttpResponse:
    request = visit.request
    typed = {name: request.GET.get(name, "") for name in ("type", "agent")}
    if request.method == "POST":
        typed = {name: request.POST.get(name, "") for name in NewTaskForm.base_fields}
    earlier = list_of_type(typed["type"], project)
    source = find_source(request, earlier, project)
    if source:
        earlier = earlier or list_of_type(source.type, project)
        former = find_earlier(request.POST.get("filled", ""), project)
        before = copied_from(former) if former else {}
        # A value of the task that was chosen before is not typed.
        own = {name: v for name, v in typed.items() if v and v != str(before.get(name, ""))}
        typed = copied_from(source) | own
        typed["payload"] = format_payload(source.payload)
    typed["project"] = project.name if project else ""
    return show(
        visit,
        NewTaskForm(initial=typed, auto_id="task-%s"),
        project,
        source=source,
        earlier=earlier,
    )


def find_source(request: HtmxRequest, earlier: list[Task], project: Project | None) -> Task | None:
    given = request.POST if request.method == "POST" else request.GET
    if as_id(given.get("fill", "")) is None:
        return next(iter(earlier), None)
    return find_earlier(given["fill"], project)


def find_earlier(text: str, project: Project | None) -> Task | None:
    id = as_id(text)
    if id is None:
        return None
    own = Task.objects.filter(project=project, pk=id).select_related("agent", "pool")
    return own.first()


def copied_from(task: Task) -> dict[str, Any]:
    own = {name: getattr(task, name) for name in COPIED}
    return own | {"type": task.type, "agent": task.sent_to.name}


def list_of_type(kind: str, project: Project | None) -> list[Task]:
    if not kind or project is None:
        return []
    newest = Task.objects.filter(project=project).order_by("-id").values("pk")[:READ]
    rows = Task.objects.filter(pk__in=newest, type=kind[:64]).order_by("-id")
    different: dict[str, Task] = {}
    for row in rows.select_related("agent", "pool")[:COMPARED]:
        different.setdefault(format_payload(row.payload), row)
    return list(different.values())[:OFFERED]


def show(
    visit: Visit,
    form: NewTaskForm,
    project: Project | None,
    *,
    source: Task | None = None,
    earlier: list[Task] | None = None,
    status: int = 200,
) -> HttpResponse:
    payload = form["payload"].value() or ""
    rows = list_of_type(form["type"].value() or "", project) if earlier is None else earlier
    key = visit.request.POST.get("key", "")[:32] or token_hex(16)
    page = compose_page(
        title="New task",
        crumbs=(CRUMB,),
        status_code=status,
        form=form,
        key=key,
        types=list(dict.fromkeys(SOURCES["type"].list(project)))[:TYPES_OFFERED],
        agents=list_known_agents(project),
        single_project=visit.scope.projects[0] if len(visit.scope.projects) == 1 else None,
        projects=visit.scope.projects,
        earlier=rows,
        source=source,
        is_redacted=bool(MASKED.search(payload)),
        zone=timezone.get_current_timezone_name(),
    )
    return respond(visit, "tasks/new.html", "tasks/_new.html", page)
