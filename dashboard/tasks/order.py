"""The orders of the Tasks list: what needs someone first, or by a column.

The first order joins one short read per state, each of which follows an index. A column is sorted
when it is asked for, so only for lists of up to SORTABLE tasks. A page begins beside a task: its
place in the order is that of its values now.
"""

from typing import Any
from uuid import UUID

from django.db.models import Case, F, IntegerField, Q, QuerySet, Value, When
from django.db.models.functions import Coalesce, Lower

from dashboard.compiled_queries import compiled
from dashboard.pagination import PAGE, Page, read_page
from dashboard.shared_queries import title_of
from dashboard.tasks.filters import TaskQuery
from dashboard.tasks.queries import add_outcomes, filter_tasks, read_tasks
from ledger.models import Project, Task
from ledger.states import TaskState

SORTABLE = 10_000
# the states, those that need attention first
ORDER = (
    TaskState.ESCALATED,
    TaskState.RUNNING,
    TaskState.RETRY,
    TaskState.QUEUED,
    TaskState.BLOCKED,
    TaskState.FAILED,
    TaskState.DONE,
    TaskState.SKIPPED,
    TaskState.ABORTED,
)
RANKS = {state: rank for rank, state in enumerate(ORDER)}
COLUMNS: dict[str, Any] = {
    "created": F("id"),
    "task": Lower(title_of()),
    "key": Coalesce("ref", Value("")),
    "agent": F("agent__name"),
    "type": F("type"),
    "priority": F("priority"),
    "attempts": F("attempts"),
    "changed": F("updated_at"),
}
ALWAYS = ("created",)  # served by an index, however long the list is


def read_sort(name: str, total: int) -> str:
    """Return the order that an address asks for if the list can have it, or else none.

    >>> read_sort("-changed", 3), read_sort("-changed", 20_000), read_sort("-created", 20_000)
    ('-changed', '', '-created')
    """
    column = name.removeprefix("-")
    return name if column in COLUMNS and (column in ALWAYS or total <= SORTABLE) else ""


def list_tasks(
    query: TaskQuery,
    project: Project | None,
    sort: str = "",
    *,
    before: UUID | None,
    after: UUID | None,
) -> Page[Any]:
    """Return a page of tasks with their extras."""

    def fetch(*, before: UUID | None, after: UUID | None) -> list[Any]:
        return read_tasks(list_ids(query, project, sort, before=before, after=after))

    found = read_page(fetch, before=before, after=after)
    add_outcomes(found.rows)
    return found


def list_ids(
    query: TaskQuery,
    project: Project | None,
    sort: str,
    *,
    before: UUID | None,
    after: UUID | None,
) -> list[UUID]:
    """Return the ids next to a task's place, the next one first, and one more than a page has."""
    beside = Task.objects.filter(pk__in=[before or after])
    if sort:
        rows = sort_by_column(query, project, sort, before=before, after=after)
        return [row["id"] for row in rows]
    state = beside.values_list("state", flat=True).first()
    if state is None:
        before = after = None
    rank = RANKS[TaskState(state)] if state else None
    return [row["id"] for row in fetch_by_state(query, project, rank, before, after)]


@compiled
def fetch_by_state(
    query: TaskQuery,
    project: Project | None,
    rank: int | None,
    before: UUID | None,
    after: UUID | None,
) -> QuerySet[Any, Any]:
    """Return tasks by state: those after a place in the order, or backward those before it."""
    branches: list[QuerySet[Any, Any]] = []
    for number, state in enumerate(ORDER):
        rows = filter_tasks(query, project).filter(state=state)
        if rank is not None and (number > rank if after else number < rank):
            continue
        if number == rank:
            rows = rows.filter(id__gt=after) if after else rows.filter(id__lt=before)
        rows = rows.order_by("id" if after else "-id")
        place = Value(number, output_field=IntegerField())
        branches.append(rows.values("id").annotate(place=place)[: PAGE + 1])
    first, *others = branches
    ordered = ("-place", "id") if after else ("place", "-id")
    return first.union(*others, all=True).order_by(*ordered)[: PAGE + 1]


def sort_by_column(
    query: TaskQuery,
    project: Project | None,
    sort: str,
    *,
    before: UUID | None,
    after: UUID | None,
) -> QuerySet[Any, Any]:
    """Return tasks by a column and, where it is the same, the newest first."""
    column = COLUMNS[sort.removeprefix("-")]
    beside = Task.objects.filter(pk__in=[before or after]).values_list(column, flat=True)
    value = next(iter(beside[:1]), None) if before or after else None
    rows = Task.objects.alias(sorted=column)
    rows = rows.filter(pk__in=filter_tasks(query, project).values("pk"))
    descending, backward = sort.startswith("-"), bool(after) and value is not None
    if value is not None:
        further = "lt" if descending != backward else "gt"
        newer = Q(id__gt=after) if backward else Q(id__lt=before)
        rows = rows.filter(Q(**{f"sorted__{further}": value}) | Q(sorted=value) & newer)
    ordered = ("-sorted" if descending != backward else "sorted", "id" if backward else "-id")
    return rows.order_by(*ordered).values("id")[: PAGE + 1]


def order_all(query: TaskQuery, project: Project | None, sort: str) -> QuerySet[Task]:
    """Return all tasks of a list in its order, for an export."""
    rows = filter_tasks(query, project)
    if not sort:
        return rows.alias(place=rank_of_state()).order_by("place", "-id")
    by = "-sorted" if sort.startswith("-") else "sorted"
    return rows.alias(sorted=COLUMNS[sort.removeprefix("-")]).order_by(by, "-id")


def rank_of_state() -> Any:
    whens = [When(state=state, then=Value(rank)) for state, rank in RANKS.items()]
    return Case(*whens, output_field=IntegerField())
