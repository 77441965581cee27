"""The admin's pages of what the ledger records: events, attempts, failures, moves and the clock."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.apps import apps
from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from ledger.admin_pages.details import Link
from ledger.admin_pages.filters import Period, list_values
from ledger.admin_pages.lists import ReadOnly, name_task
from ledger.journal import Kind
from ledger.models import Attempt, ClockRun, Event, Failure, Task, TaskHistory
from ledger.states import Outcome, TaskState
from ledger.values.ids import first_id

# the models of the subjects of events, by their types
SUBJECTS = {
    "agent": "ledger.Agent",
    "channel": "retries.Channel",
    "escalation": "retries.Escalation",
    "instruction": "ledger.Instruction",
    "operation": "retries.Operation",
    "pattern": "retries.FailurePattern",
    "plan": "ledger.Plan",
    "project": "ledger.Project",
    "rule": "ledger.StandingInstruction",
    "session": "ledger.Session",
    "task": "ledger.Task",
    "token": "ledger.Token",
}


# a request takes at most a few minutes
REQUEST_TIME = timedelta(hours=1)


class Records(ReadOnly):
    """Rows of tables that grow with each move; lists do not sort them."""

    sortable_by = ()


@admin.register(Event)
class EventAdmin(Records):
    list_display = ("at", "kind", "subject", "from_state", "to_state", "actor_name")
    list_filter = (
        Period,
        list_values("actor_type", ("user", "token", "system")),
        list_values("kind", Kind.values),
    )
    search_fields = ("actor_name", "request_id")
    readonly_fields = ("at",)

    @admin.display(description="subject")
    def subject(self, row: Event) -> str:
        # Ids made at about the same time differ at the end.
        label = f"{row.subject_type} …{str(row.subject_id)[-12:]}"
        if row.subject_type not in SUBJECTS:
            return label
        opts = apps.get_model(SUBJECTS[row.subject_type])._meta
        url = reverse(f"admin:{opts.app_label}_{opts.model_name}_change", args=[row.subject_id])
        return format_html('<a href="{}" title="{}">{}</a>', url, row.subject_id, label)

    def name_row(self, row: Event) -> str:
        return row.kind

    def is_about_one(self, request: HttpRequest) -> bool:
        if {"subject_id__exact", "id__gte"} & request.GET.keys():
            return True
        return bool(find_subject_ids(request.GET.get("q", "")))

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        if subjects := find_subject_ids(search_term):
            return queryset.filter(subject_id__in=subjects), False
        return super().get_search_results(request, queryset, search_term)

    def list_subjects(self, row: Event) -> list[UUID]:
        return [row.subject_id]

    def list_links(self, request: HttpRequest, row: Event) -> Iterator[Link]:
        subject = find_subject(row)
        yield from self.link_to_row(request, row.subject_type.capitalize(), subject)
        yield from self.link_to_list(
            request, "Events about it", Event, subject_id__exact=row.subject_id
        )
        if row.request_id:
            yield from self.link_to_list(
                request,
                "Events of its request",
                Event,
                request_id__exact=row.request_id,
                id__gte=first_id(row.at - REQUEST_TIME),
                id__lt=first_id(row.at + REQUEST_TIME),
            )

    def find_page(self, row: Event) -> str:
        subject = find_subject(row)
        page = self.admin_site._registry.get(type(subject)) if subject else None
        return page.find_page(subject) if subject and isinstance(page, ReadOnly) else ""


def find_subject_ids(term: str) -> list[UUID]:
    term = term.strip().replace("\x00", "")
    if not term:
        return []
    try:
        return [UUID(term)]
    except ValueError:
        return list(Task.objects.filter(ref=term).order_by("pk").values_list("pk", flat=True))


def find_subject(row: Event) -> Model | None:
    name = SUBJECTS.get(row.subject_type)
    if name is None:
        return None
    found: Model | None = apps.get_model(name)._default_manager.filter(pk=row.subject_id).first()
    return found


@admin.register(ClockRun)
class ClockRunAdmin(ReadOnly):
    list_display = (
        "name",
        "last_run_at",
        "last_success_at",
        "failures",
        "last_error",
        "took_ms",
        "did",
    )
    json_columns = ("did",)


class OfTask(Records):
    """Rows about a task, whose events are their history."""

    project_path = "task__project_id"
    task_path = "task"
    page = "/tasks/{0.task_id}/"
    links = {
        "Task": "task",
        "Attempts": "ledger.Attempt?task__id__exact={0.task_id}",
        "Failures": "ledger.Failure?task__id__exact={0.task_id}",
        "Events": "ledger.Event?subject_id__exact={0.task_id}",
    }

    def list_subjects(self, row: Any) -> list[UUID]:
        return [row.task_id]


@admin.register(Attempt)
class AttemptAdmin(OfTask):
    list_display = ("task", "number", "agent", "worker_id", "outcome", "started_at", "ended_at")
    list_filter = (list_values("outcome", Outcome.values, null="running"), "agent__project")
    search_fields = ("agent__name", "worker_id")

    def name_row(self, row: Attempt) -> str:
        return f"Attempt {row.number} of {name_task(row.task)}"


# the lookup of a pattern's failures; patterns belong to another app
OF_PATTERN = "grouped__pattern__exact"


@admin.register(Failure)
class FailureAdmin(OfTask):
    list_display = ("at", "type", "code", "message", "task")
    list_filter = ("type",)

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        return lookup == OF_PATTERN or super().lookup_allowed(lookup, value, request)

    def list_links(self, request: HttpRequest, row: Failure) -> Iterator[Link]:
        pattern = apps.get_model("retries.FailurePattern")._default_manager
        found = pattern.filter(grouped__failure=row.pk).order_by("pk").first()
        yield from self.link_to_row(request, "Pattern", found)
        yield from super().list_links(request, row)


@admin.register(TaskHistory)
class TaskHistoryAdmin(OfTask):
    list_display = ("timestamp", "task", "from_state", "to_state", "error")
    list_filter = (Period, list_values("to_state", TaskState.values))

    def is_about_one(self, request: HttpRequest) -> bool:
        return "task__id__exact" in request.GET

    def name_row(self, row: TaskHistory) -> str:
        return f"{row}: {name_task(row.task)}"
