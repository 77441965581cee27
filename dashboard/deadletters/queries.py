"""What the Dead letters pages ask the database: which there are, what became of them, one."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery

from dashboard.pagination import Page, read_page
from dashboard.query_box import ANY
from dashboard.shared_queries import (
    CountOf,
    hash_of,
    match_any,
    match_values,
    of_project,
)
from dashboard.tasks.filters import ERRORS, LETTER_STATES, TaskQuery
from dashboard.tasks.queries import OUTCOMES_SHOWN, add_outcomes
from ledger.models import Attempt, DeadLetter, Failure, Need, Project
from ledger.optional_cache import figure
from ledger.states import TaskState

HANDLED_SHOWN = 4
# what a line shows, beside what is looked up for it
SHOWN = (
    *("type", "error", "failed_at", "closed_at", "closed_as", "agent__name", "project__name"),
    *("task__title", "task__type", "task__ref", "task__attempts", "task__attempt_limit"),
    "task__carries_id",
)
SHOWN_HANDLED = (
    *("closed_at", "closed_as", "closed_by_name", "note", "replayed_as__state"),
    *("task__title", "task__type"),
)


def letters(query: TaskQuery, project: Project | None) -> QuerySet[DeadLetter]:
    """Those that a query asks for; open ones, unless it names a state or an id."""
    rows = of_project(DeadLetter.objects.all(), project).filter(
        match_values(query.agent, "agent__name"),
        match_values(query.type, "type"),
        match_values(query.plan, "task__plan__ref"),
        match_values(query.reason, "reason"),
        match_any(query.error, died_of),
        match_any(query.state, in_state),
    )
    if query.state == ANY and not query.ids:
        rows = rows.filter(closed_at=None)
    if query.attempts_over is not None:
        rows = rows.filter(task__attempts__gt=query.attempts_over)
    if query.attempts_under is not None:
        rows = rows.filter(task__attempts__lt=query.attempts_under)
    for word in query.words:
        rows = rows.filter(
            Q(error__icontains=word) | Q(task__title__icontains=word) | Q(type__icontains=word)
        )
    if query.ids:
        rows = rows.filter(Q(id__in=query.ids) | Q(task_id__in=query.ids))
    return rows


def in_state(name: str) -> Q:
    return Q(closed_at=None) if name == "open" else Q(closed_as=name)


def died_of(text: str) -> Q:
    """Whose error says this, or that failed in this way the last time."""
    if text not in ERRORS:
        return Q(error__icontains=text)
    same = Failure.objects.filter(task=OuterRef("task"), type=text)
    return Q(task__in=Subquery(same.values("task")))


def with_extras(rows: QuerySet[DeadLetter]) -> QuerySet[Any]:
    """What a line shows beside the row's own columns, looked up for the page's rows alone."""
    last = Failure.objects.filter(task=OuterRef("task")).order_by("-id")
    attempts = Attempt.objects.filter(task=OuterRef("task")).order_by("-number")
    waiting = Need.objects.filter(need=OuterRef("task"), task__state=TaskState.BLOCKED)
    return rows.select_related("task", "agent", "project").annotate(
        failure_type=Subquery(last.values("type")[:1]),
        last_outcomes=ArraySubquery(attempts.values("outcome")[:OUTCOMES_SHOWN]),
        waiting=CountOf(waiting.order_by().values("task_id")),
    )


def listed(rows: QuerySet[DeadLetter], *, before: UUID | None, after: UUID | None) -> Page[Any]:
    """A page of them with what its lines show."""
    found = read_page(with_extras(rows).only(*SHOWN), before=before, after=after)
    tasks_of(found.rows)
    return found


def tasks_of(letters: Sequence[Any]) -> list[Any]:
    """Their tasks, each with the `outcomes` of its last attempts."""
    for letter in letters:
        letter.task.last_outcomes = letter.last_outcomes
    return add_outcomes(letter.task for letter in letters)


def handled(project: Project | None) -> list[Any]:
    """The last ones that somebody decided about."""
    rows = of_project(DeadLetter.objects.exclude(closed_at=None), project)
    found = rows.select_related("task", "replayed_as").only(*SHOWN_HANDLED)
    return list(found.order_by("-closed_at", "-id")[:HANDLED_SHOWN])


def counts(query: TaskQuery, project: Project | None) -> dict[str, int]:
    """How many there are in each state, whatever state the query asks for."""
    anything = query.stateless(LETTER_STATES)

    def count() -> dict[str, int]:
        rows = letters(anything, project).order_by().values("closed_as").annotate(n=Count("*"))
        found = {row["closed_as"] or "open": row["n"] for row in rows}
        return {name: found.get(name, 0) for name in LETTER_STATES}

    return figure(f"letters:{project.id if project else 'all'}:{hash_of(anything)}", count)


def one(letter_id: UUID) -> Any:
    """One with all its columns, or None."""
    rows = with_extras(DeadLetter.objects.filter(pk=letter_id))
    found = rows.select_related("task__plan", "replayed_as").defer("task__plan__source").first()
    tasks_of([found] if found else [])
    return found


def exists(letter_id: UUID) -> bool:
    return DeadLetter.objects.filter(id=letter_id).exists()
