"""The On call page: escalation policies, rotas, and who is on call in the next 7 days."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.form_values import LARGEST, read_form_number, read_whole_number
from dashboard.frame.access import may_open, takes_form
from dashboard.frame.rendering import (
    SETTINGS,
    HtmxRequest,
    Visit,
    begin_visit,
    compose_page,
    respond,
)
from dashboard.lists.query_box import as_id
from ledger.errors import Invalid, VersionMismatch
from ledger.journal import stamp_of
from ledger.models import Project
from ledger.values.text import normalize_newlines
from retries.models import Channel, EscalationPolicy, Rota
from retries.on_call import editing
from retries.on_call.default_answers import list_authors, why_without_author
from retries.on_call.directories import read_directory, read_schedule
from retries.on_call.rotas import list_periods
from retries.on_call.steps import Directory

TEMPLATE, PART = "on_call/index.html", "on_call/_on_call.html"
PREVIEW = timedelta(days=7)
MOST_PERIODS = 30
NOUNS: Mapping[str, Any] = {"policy": EscalationPolicy, "rota": Rota}
NEW = {
    "policy": {"within": "60", "steps": "0 tell role:operator\n30 remind", "enabled": "on"},
    "rota": {"timezone": "UTC"},
}
POINTERS = {"answer_within_s": "within"}
CHANGED_MEANWHILE = "Someone has changed it meanwhile. Look at it again, then save."


@dataclass(frozen=True, slots=True)
class FormField:
    """A field of a form; `rows` is the height of a text with several lines."""

    name: str
    label: str
    hint: str
    rows: int = 0
    value: str = ""
    error: str = ""


FIELDS = {
    "policy": (
        FormField("name", "Name", "Once in the project."),
        FormField(
            "conditions",
            "When",
            "Such as agent:deploy-* severity:high. Keys: reason, severity, agent, plan, type, "
            "pattern. Empty: every escalation.",
        ),
        FormField(
            "within", "Answer within, in minutes", "Open after that, an escalation is overdue."
        ),
        FormField(
            "steps",
            "Steps",
            "One a line, after minutes: 0 tell rota:nights · 15 remind · 30 tell mara, role:admin "
            "· 60 answer retry. An answer comes last. No policy answers a permission request or a "
            "question for a secret.",
            rows=6,
        ),
        FormField(
            "position", "Position", "The lowest whose conditions hold applies; empty: the last."
        ),
    ),
    "rota": (
        FormField("name", "Name", "Once in the project."),
        FormField("timezone", "Time zone", "Such as Europe/Berlin."),
        FormField(
            "shifts",
            "Shifts",
            "One a line, such as mon-fri 18:00-08:00 mara, jon. The first that holds counts, and "
            "its first person comes first.",
            rows=6,
        ),
        FormField("fallback", "Outside of all shifts", "Usernames, separated by commas."),
    ),
}


@dataclass(slots=True)
class OnCallForm:
    """The form of a policy or a rota, as stored or as typed, with its errors."""

    noun: str
    row: Any
    values: dict[str, str]
    errors: dict[str, str] = field(default_factory=dict)

    @property
    def fields(self) -> list[FormField]:
        return [
            replace(
                each, value=self.values.get(each.name, ""), error=self.errors.get(each.name, "")
            )
            for each in FIELDS[self.noun]
        ]


@dataclass(frozen=True, slots=True)
class Duty:
    """A time in which the same people are on call, in the rota's own zone."""

    starts_at: datetime
    ends_at: datetime
    people: str
    is_now: bool


@dataclass(frozen=True, slots=True)
class ListedRota:
    row: Rota
    duties: list[Duty]
    more: int


def index(request: HtmxRequest) -> HttpResponse:
    return show(begin_visit(request, current="settings"))


def show(visit: Visit, form: OnCallForm | None = None) -> HttpResponse:
    project, asks = visit.scope.only, visit.request.GET
    may_edit = may_open(visit.request.user, "on_call_save")
    policies = editing.list_policies(project) if project else []
    rows: list[Any] = list(Rota.objects.filter(project=project).order_by("name")) if project else []
    directory = read_directory(project.pk) if project else Directory(())
    if form is None and may_edit and project:
        form = open_form(asks.get("edit", ""), [*policies, *rows])
    page = compose_page(
        title="On call",
        crumbs=(SETTINGS,),
        status_code=422 if form and form.errors else 200,
        project=project,
        projects=list(visit.scope.projects),
        policies=policies,
        rotas=[list_duties(row, now=visit.now) for row in rows],
        form=form,
        # what to delete
        asked=find_asked(asks.get("delete", ""), [*policies, *rows]) if may_edit else None,
        people=list(directory.people[:50]),
        groups=sorted(directory.groups)[:50],
        # people whom no channel reaches
        unreachable=find_unreachable(policies, directory, project, now=visit.now),
        # policies whose default answer is not given, and why
        unanswered=find_unanswered(policies, directory, now=visit.now),
        may_edit=may_edit,
    )
    return respond(visit, TEMPLATE, PART, page)


def list_duties(row: Rota, *, now: datetime) -> ListedRota:
    found = list_periods(read_schedule(row), since=now, until=now + PREVIEW)
    zone = ZoneInfo(row.timezone)
    duties = [
        Duty(
            each.starts_at.astimezone(zone),
            each.ends_at.astimezone(zone),
            ", ".join(each.people),
            is_now=each.starts_at == now,
        )
        for each in found[:MOST_PERIODS]
    ]
    return ListedRota(row, duties, len(found) - len(duties))


def find_unreachable(
    policies: list[EscalationPolicy],
    directory: Directory,
    project: Project | None,
    *,
    now: datetime,
) -> list[str]:
    if not policies:
        return []
    targets = [to for each in policies for step in editing.read_steps(each.steps) for to in step.to]
    names = directory.resolve(targets, now)
    reached = Channel.objects.on().reaching(project).filter(person__username__in=names)
    known = set(reached.values_list("person__username", flat=True))
    return [name for name in names if name not in known]


def find_unanswered(
    policies: list[EscalationPolicy], directory: Directory, *, now: datetime
) -> list[tuple[str, str]]:
    away = [row for row in policies if row.answer_by_name and row.enabled]
    away = [row for row in away if row.answer_by_name not in directory.people]
    authors = list_authors(away[0].project_id, now=now) if away else ()
    found = ((row.name, why_without_author(row, authors)) for row in away)
    return [(name, why) for name, why in found if why]


# ---- the form


def open_form(text: str, listed: list[Any]) -> OnCallForm | None:
    noun, _, id = text.partition(":")
    if noun not in NOUNS:
        return None
    row = find_row(noun, id, listed)
    if row is None:
        return OnCallForm(noun, None, dict(NEW[noun])) if id == "new" else None
    return OnCallForm(noun, row, values_of(row))


def find_row(noun: str, text: str, listed: list[Any]) -> Any:
    id = as_id(text)
    return next((row for row in listed if isinstance(row, NOUNS[noun]) and row.pk == id), None)


def find_asked(text: str, listed: list[Any]) -> tuple[str, Any] | None:
    noun, _, id = text.partition(":")
    row = find_row(noun, id, listed) if noun in NOUNS else None
    return (noun, row) if row else None


def values_of(row: Any) -> dict[str, str]:
    shared = {"name": row.name, "version": str(row.version)}
    if isinstance(row, Rota):
        people = {"shifts": "\n".join(row.shifts), "fallback": ", ".join(row.fallback)}
        return shared | people | {"timezone": row.timezone}
    values = {
        "conditions": row.conditions,
        "position": str(row.position),
        "within": str(row.answer_within_s // 60),
        "steps": "\n".join(row.steps),
    }
    return shared | values | ({"enabled": "on"} if row.enabled else {})


@takes_form("on_call")
def save(request: HtmxRequest, name: str) -> HttpResponse:
    visit = begin_visit(request, current="settings")
    text = request.POST.get("row", "")
    row = NOUNS[name].objects.filter(pk=as_id(text)).first() if name in NOUNS and text else None
    project = row.project if row else visit.scope.only
    if name not in NOUNS or project is None or (text and row is None):
        raise Http404("There is nothing to save here.")
    given = {key: normalize_newlines(value) for key, value in request.POST.dict().items()}
    form = OnCallForm(name, row, {key: value.replace("\0", "") for key, value in given.items()})
    try:
        saved = write(form, project, visit)
    except Invalid as refusal:
        for each in refusal.more["errors"]:
            field_name = str(each["pointer"]).split("/")[1]
            form.errors[POINTERS.get(field_name, field_name)] = str(each["detail"])
    except VersionMismatch:
        form.errors["form"] = CHANGED_MEANWHILE
    else:
        messages.success(request, f"Saved: {saved.name}.")
        return redirect(reverse("dashboard:on_call") + visit.scope.query)
    return show(visit, form)


def write(form: OnCallForm, project: Project, visit: Visit) -> Any:
    stamp, values = stamp_of(visit.request), read_values(form)
    version = read_whole_number(form.values.get("version", ""))
    if form.noun == "rota":
        if form.row is None:
            return editing.create_rota(project, stamp=stamp, **values)
        return editing.update_rota(form.row.pk, version=version, stamp=stamp, **values)
    if form.row is None:
        return editing.create_policy(project, stamp=stamp, **values)
    return editing.update_policy(form.row.pk, version=version, stamp=stamp, **values)


def read_values(form: OnCallForm) -> dict[str, Any]:
    value = form.values.get
    values: dict[str, Any] = {"name": value("name", "").strip()}
    if form.noun == "rota":
        fallback = [name for each in value("fallback", "").split(",") if (name := each.strip())]
        zone = value("timezone", "").strip() or "UTC"
        return values | {
            "timezone": zone,
            "shifts": read_lines(form, "shifts"),
            "fallback": fallback,
        }
    if value("position", "").strip():
        values["position"] = read_number(form, "position")
    return values | {
        "conditions": value("conditions", ""),
        "answer_within_s": 60 * read_number(form, "within"),
        "steps": read_lines(form, "steps"),
        "enabled": "enabled" in form.values,
    }


def read_lines(form: OnCallForm, name: str) -> list[str]:
    return [line for each in form.values.get(name, "").split("\n") if (line := each.strip())]


def read_number(form: OnCallForm, name: str) -> int:
    text = form.values.get(name, "").strip()
    number = read_form_number(text)
    if number is None:
        raise Invalid(f"/{name}", f"“{text[:20]}” is not a whole number up to {LARGEST:,}.")
    return number


def delete(request: HtmxRequest, name: str, row_id: UUID) -> HttpResponse:
    visit = begin_visit(request, current="settings")
    page = reverse("dashboard:on_call")
    row = NOUNS[name].objects.filter(pk=row_id).first() if name in NOUNS else None
    if row is None:
        raise Http404(f"There is no such row to delete: {row_id}.")
    if "confirmed" not in request.POST:
        query = visit.scope.params.copy()
        query["delete"] = f"{name}:{row_id}"
        return redirect(f"{page}?{query.urlencode()}")
    try:
        editing.delete(NOUNS[name], row_id, stamp=stamp_of(request))
    except Invalid as refusal:
        messages.warning(request, refusal.detail)
    else:
        messages.success(request, f"Deleted: {row.name}.")
    return redirect(page + visit.scope.query)
