"""Read what the page of one task shows: its attempts, failures, neighbors and escalation."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Count, F, Min, OuterRef, QuerySet, Subquery

from dashboard.assignment import with_people
from dashboard.tasks.queries import HEAVY, with_extras
from ledger.models import Attempt, Failure, Message, Need, Task
from ledger.states import Proof, TaskState
from ledger.tasks import exclusive_files
from ledger.tasks.lineage import select_lineage
from retries.assignment.rows import TASK
from retries.failures.stuck_tasks import FOR_PEOPLE
from retries.models import AttemptDiff, AttemptTrace, Escalation
from retries.retry_context.flaky import FlakyCheck, find_flaky_checks
from retries.retry_context.history import MARKS
from retries.states import Answer, EscalationState

ATTEMPTS_SHOWN = 40
NEIGHBORS_SHOWN = 60


def find_task(task_id: UUID) -> Any:
    """Return a task with all its columns, extras, open escalation and neighbors' ids, or None."""
    needs = Need.objects.filter(task=task_id).order_by("need_id").values("need_id")
    dependents = Need.objects.filter(need=task_id).order_by("task_id").values("task_id")
    asked = Escalation.objects.open().filter(task=OuterRef("pk"))
    rows = (
        Task.objects.filter(pk=task_id)
        .select_related("plan", "replay_of", "replaced_by")
        .defer("plan__source", "plan__objective")
        .annotate(
            pool_name=F("pool__name"),
            question_id=Subquery(asked.values("pk")[:1]),
            question_at=Subquery(asked.values("opened_at")[:1]),
            question_reason=Subquery(asked.values("reason")[:1]),
            question_asked_in=Subquery(asked.values("asked_in")[:1]),
            need_ids=ArraySubquery(needs[:NEIGHBORS_SHOWN]),
            dependent_ids=ArraySubquery(dependents[:NEIGHBORS_SHOWN]),
        )
    )
    return with_people(with_extras(rows), TASK).first()


def list_attempts(task: Task) -> list[Attempt]:
    """Return the last attempts, oldest first, also those of earlier runs."""
    # Each comes with its failure, and with the failure's `pattern_id`.
    rows = Attempt.objects.filter(task__in=select_lineage(task)).select_related("failure")
    spans = AttemptTrace.objects.filter(attempt=OuterRef("pk")).values("spans")
    rows = rows.annotate(pattern_id=F("failure__grouped__pattern"), span_count=Subquery(spans))
    rows = rows.annotate(**MARKS).defer("report_digest")
    return list(rows.order_by("-number")[:ATTEMPTS_SHOWN])[::-1]


def list_traced(attempts: list[Any]) -> list[Attempt]:
    return [each for each in reversed(attempts) if each.span_count]


def find_holder(row: Task) -> Task | None:
    """Return the task that has files of this one, if that one waits for it."""
    held = exclusive_files.find_holder(row.pk) if row.exclusive else None
    return Task.objects.only("ref", "title", "type").get(pk=held["id"]) if held else None


def can_retry(row: Any) -> bool:
    """Return whether a retry is one of the next steps of a task that `find_task` has read."""
    letter = getattr(row, "dead_letter", None)
    match row.state:
        case TaskState.RETRY:
            return True
        case TaskState.FAILED:
            is_aborted = row.plan is not None and row.plan.aborted_at is not None
            return letter is not None and letter.closed_at is None and not is_aborted
        case TaskState.ESCALATED:
            return row.question_reason not in (None, *FOR_PEOPLE)
    return False


def failures_of(attempts: list[Attempt]) -> list[Failure]:
    found = (getattr(attempt, "failure", None) for attempt in reversed(attempts))
    return [failure for failure in found if failure]


def find_acceptance(row: Any) -> Escalation | None:
    """Return the answer by which a person accepted a task as done, if one did."""
    if row.proof != Proof.PERSON:
        return None
    rows = Escalation.objects.filter(task=row.pk, action=Answer.ACCEPT)
    return rows.only("answered_by_name", "note", "closed_at").order_by("-id").first()


def find_source(attempts: list[Any]) -> AttemptDiff | None:
    """Return what the newest failed attempt changed and where it ran, if its client sent that."""
    failed = next((each for each in reversed(attempts) if hasattr(each, "failure")), None)
    if failed is None or not failed.has_source:
        return None
    return AttemptDiff.objects.filter(attempt=failed.pk).first()


def find_flaky_check(attempts: list[Attempt]) -> FlakyCheck | None:
    """Return a check of the last attempt with one that gave another result on the same files."""
    last = next((each for each in reversed(attempts) if each.checks), None)
    return find_flaky_checks([last.pk]).get(last.pk) if last else None


def build_open_escalation(row: Any) -> Escalation | None:
    # `find_task` has read these columns; the others stay unset.
    if row.question_id is None:
        return None
    return Escalation(
        pk=row.question_id,
        state=EscalationState.OPEN,
        opened_at=row.question_at,
        reason=row.question_reason,
        asked_in_id=row.question_asked_in,
        task_id=row.pk,
    )


@dataclass(frozen=True, slots=True)
class Neighbors:
    """The tasks that a task needs, and those that need it."""

    needs: list[Task]
    dependents: list[Task]

    def __bool__(self) -> bool:
        return bool(self.needs or self.dependents)


def list_neighbors(row: Any) -> Neighbors:
    # The neighbors are looked up by ids: with the conditions instead, PostgreSQL would read all
    # tasks.
    ids = [*row.need_ids, *row.dependent_ids]
    if not ids:
        return Neighbors([], [])
    rows: QuerySet[Task] = Task.objects.filter(pk__in=ids).select_related("agent").defer(*HEAVY)
    found = list(rows.order_by("id"))
    return Neighbors(
        [each for each in found if each.pk in row.need_ids],
        [each for each in found if each.pk in row.dependent_ids],
    )


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
    rows = (
        Message.objects.filter(attempt__in=[attempt.pk for attempt in attempts])
        .values("attempt__number", "session")
        .annotate(
            first=Min("order"),
            n=Count("pk"),
            todos=F("session__task_count") - F("session__task_dropped_count"),
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
