"""Read what the page of one task shows: its attempts, failures, neighbors and escalation."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Count, F, Min, QuerySet

from dashboard.tasks.queries import HEAVY, add_outcomes, with_extras
from ledger.models import Attempt, Failure, Message, Need, Task
from ledger.tasks.lineage import fetch_lineage
from retries.models import Escalation, Grouped

ATTEMPTS_SHOWN = 40
NEIGHBORS_SHOWN = 60


def find_task(task_id: UUID) -> Any:
    """Return a task with all its columns and extras, or None."""
    rows = (
        Task.objects.filter(pk=task_id)
        .select_related("plan", "replay_of", "replaced_by")
        .defer("plan__source", "plan__objective")
    )
    found = add_outcomes(with_extras(rows))
    return found[0] if found else None


def list_attempts(task: Task) -> list[Attempt]:
    """Return the last attempts with their failures, oldest first, also those of earlier runs."""
    rows = Attempt.objects.filter(task__in=fetch_lineage(task)).select_related("failure")
    return list(rows.defer("report_digest").order_by("-number")[:ATTEMPTS_SHOWN])[::-1]


def failures_of(attempts: list[Attempt]) -> list[Failure]:
    """Return the failures of attempts, newest first."""
    found = (getattr(attempt, "failure", None) for attempt in reversed(attempts))
    return [failure for failure in found if failure]


def find_pattern_id(failure: Failure) -> UUID | None:
    """Return the pattern that a failure belongs to."""
    return Grouped.objects.filter(pk=failure.pk).values_list("pattern_id", flat=True).first()


@dataclass(frozen=True, slots=True)
class Neighbors:
    """The tasks that a task needs, and those that need it."""

    needs: list[Task]
    dependents: list[Task]

    def __bool__(self) -> bool:
        return bool(self.needs or self.dependents)


def list_neighbors(task_id: UUID) -> Neighbors:
    return Neighbors(
        list_some(Task.objects.filter(dependents__task=task_id)),
        list_some(Task.objects.filter(needs__need=task_id)),
    )


def list_some(rows: QuerySet[Task]) -> list[Task]:
    return list(rows.select_related("agent").defer(*HEAVY).order_by("id")[:NEIGHBORS_SHOWN])


def count_waiting(task_id: UUID) -> int:
    """Count the blocked tasks that wait for a task."""
    return Need.objects.filter(need=task_id, task__state="blocked").count()


def find_open_escalation(task_id: UUID) -> Escalation | None:
    """Return the open escalation of a task, or None."""
    rows = Escalation.objects.open().filter(task=task_id)
    return rows.only("id", "opened_at", "reason", "state").first()


@dataclass(frozen=True, slots=True)
class Conversation:
    """The messages of an attempt in a session; `first` is the number of the first one."""

    attempt: int
    session_id: UUID
    first: int
    count: int
    todos: int
    todos_done: int


def list_conversations(attempts: list[Attempt]) -> list[Conversation]:
    """Return where attempts were talked about, in their order."""
    rows = (
        Message.objects.filter(attempt__in=[attempt.pk for attempt in attempts])
        .values("attempt__number", "session")
        .annotate(
            first=Min("order"),
            n=Count("pk"),
            todos=F("session__task_count"),
            done=F("session__task_success_count"),
        )
        .order_by("attempt__number", "session")
    )
    return [
        Conversation(
            attempt=row["attempt__number"],
            session_id=row["session"],
            first=row["first"],
            count=row["n"],
            todos=row["todos"],
            todos_done=row["done"],
        )
        for row in rows
    ]
