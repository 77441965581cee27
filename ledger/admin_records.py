"""The admin's pages of what the ledger records: events, attempts, failures, moves and the clock."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from django.apps import apps
from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from ledger.admin_details import Link
from ledger.admin_lists import ReadOnly
from ledger.models import Attempt, ClockRun, Event, Failure, Task, TaskHistory

# the models of the subjects of events, by their types
SUBJECTS = {
    "agent": "ledger.Agent",
    "escalation": "retries.Escalation",
    "instruction": "ledger.Instruction",
    "pattern": "retries.FailurePattern",
    "plan": "ledger.Plan",
    "project": "ledger.Project",
    "rule": "ledger.StandingInstruction",
    "session": "ledger.Session",
    "task": "ledger.Task",
    "token": "ledger.Token",
}


@admin.register(Event)
class EventAdmin(ReadOnly):
    list_display = (
        "at",
        "kind",
        "subject_type",
        "subject_id",
        "from_state",
        "to_state",
        "actor_name",
    )
    list_filter = ("kind", "actor_type")
    search_fields = ("actor_name", "request_id")
    ordering = ("-id",)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Find the history of a pasted id or a task's ref, or search the search fields."""
        term = search_term.strip().replace("\x00", "")
        try:
            return queryset.filter(subject_id=UUID(term)), False
        except ValueError:
            tasks = list(Task.objects.filter(ref=term).order_by("pk").values_list("pk", flat=True))
        if tasks:
            return queryset.filter(subject_id__in=tasks), False
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
                request, "Events of its request", Event, request_id__exact=row.request_id
            )

    def find_page(self, row: Event) -> str:
        subject = find_subject(row)
        page = self.admin_site._registry.get(type(subject)) if subject else None
        return page.page.format(subject.pk) if subject and isinstance(page, ReadOnly) else ""


def find_subject(row: Event) -> Model | None:
    """Return the row that an event is about, if it still exists and has a page."""
    name = SUBJECTS.get(row.subject_type)
    if name is None:
        return None
    found: Model | None = apps.get_model(name)._default_manager.filter(pk=row.subject_id).first()
    return found


@admin.register(ClockRun)
class ClockRunAdmin(ReadOnly):
    list_display = ("name", "last_run_at", "took_ms", "did")


class OfTask(ReadOnly):
    """Rows about a task, whose events are their history."""

    project_path = "task__project_id"
    task_path = "task"
    ordering = ("-id",)

    def list_subjects(self, row: Any) -> list[UUID]:
        return [row.task_id]

    def find_page(self, row: Any) -> str:
        return f"/tasks/{row.task_id}/"

    def list_links(self, request: HttpRequest, row: Any) -> Iterator[Link]:
        of = {"task__id__exact": row.task_id}
        yield from self.link_to_row(request, "Task", row.task)
        yield from self.link_to_list(request, "Attempts", Attempt, **of)
        yield from self.link_to_list(request, "Failures", Failure, **of)
        yield from self.link_to_list(request, "Events", Event, subject_id__exact=row.task_id)


@admin.register(Attempt)
class AttemptAdmin(OfTask):
    list_display = ("task", "number", "agent", "worker_id", "outcome", "started_at", "ended_at")
    list_filter = ("outcome", "agent__project")
    list_select_related = ("agent", "task")
    search_fields = ("agent__name", "worker_id")


@admin.register(Failure)
class FailureAdmin(OfTask):
    list_display = ("at", "type", "code", "message", "task")
    list_filter = ("type",)
    list_select_related = ("task",)


@admin.register(TaskHistory)
class TaskHistoryAdmin(OfTask):
    list_display = ("timestamp", "task", "from_state", "to_state", "error")
    list_filter = ("to_state",)
    list_select_related = ("task",)
