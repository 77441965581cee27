"""The orders of the Tasks list: what needs someone first, or by a column.

The first order joins one short read per state, each of which follows an index. With words that few
tasks have, it sorts these; with words that many tasks have, the newest come first. A column is
sorted when it is needed, so only for lists of up to SORTABLE tasks. A page begins beside a task:
its place in the order is that of its values now.
"""

from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any
from uuid import UUID

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Case, F, IntegerField, Q, QuerySet, Subquery, Value, When
from django.db.models.functions import Coalesce, Lower

from dashboard.lists.branches import list_branches
from dashboard.lists.compiled_queries import compiled
from dashboard.lists.pagination import PAGE, Page, read_page
from dashboard.lists.shared_queries import title_of
from dashboard.lists.sorting import BY_ID, SortColumn, largest, slice_sorted, sort_rows
from dashboard.steps import NOWHERE, Beside, find_beside, read_beside
from dashboard.tasks.filters import TaskQuery
from dashboard.tasks.listing import common_words
from dashboard.tasks.queries import add_outcomes, filter_tasks, read_tasks
from ledger.models import Project, Task
from ledger.models.fields import IsAmong
from ledger.states import TaskState
from ledger.values.ids import FIRST_ID, LAST_ID

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
NEWEST_FIRST = "-created"
COLUMNS = {
    "task": SortColumn(Lower(title_of())),
    "key": SortColumn(Coalesce("ref", Value(""))),
    "agent": SortColumn(F("agent__name")),
    "type": SortColumn(F("type")),
    "priority": largest(F("priority")),
    "attempts": largest(F("attempts")),
    "created": BY_ID,
    "changed": largest(F("updated_at")),
}


def list_tasks(
    query: TaskQuery,
    project: Project | None,
    sort: str = "",
    *,
    before: UUID | None,
    after: UUID | None,
) -> Page[Any]:
    def fetch(*, before: UUID | None, after: UUID | None) -> list[Any]:
        return read_tasks(list_ids(query, project, sort, before=before, after=after))

    found = read_page(fetch, before=before, after=after)
    add_outcomes(found.rows)
    return found


def list_ids(
    query: TaskQuery, project: Project | None, sort: str, *, before: UUID | None, after: UUID | None
) -> list[UUID]:
    """Return a page of ids after or before a task, and one id more."""
    is_common = common_words.are_common(query, project)
    sort = choose_sort(sort, is_common=is_common)
    if is_common and is_by_id(sort):
        return list_by_id(query, project, sort, before, after)
    beside = Task.objects.filter(pk__in=[before or after])
    if sort:
        rows = sort_by_column(query, project, sort, before=before, after=after)
        return [row["id"] for row in rows]
    state = beside.values_list("state", flat=True).first()
    # Without a task to start from, or if it is gone, the first page is read.
    if state is None:
        before = after = None
    rank = RANKS[TaskState(state)] if state else None
    return list_by_state(query, project, rank, before, after)


def choose_sort(sort: str, *, is_common: bool) -> str:
    # Words that many tasks have need another order.
    return sort or (NEWEST_FIRST if is_common else "")


def is_by_id(sort: str) -> bool:
    return COLUMNS[sort.removeprefix("-")].is_indexed


def list_by_id(
    query: TaskQuery, project: Project | None, sort: str, before: UUID | None, after: UUID | None
) -> list[UUID]:
    # All tasks with the words are read only if a walk finds too few.
    most = common_words.MOST_WALKED
    rows = walk(query, project, sort, before, after, most)
    if len(rows) <= PAGE and find_end(query, project, sort, before, after, most):
        rows = list(sort_by_column(query, project, sort, before=before, after=after))
    return [row["id"] for row in rows]


@compiled
def walk(
    query: TaskQuery,
    project: Project | None,
    sort: str,
    before: UUID | None,
    after: UUID | None,
    most: int,
) -> QuerySet[Any, Any]:
    """Return the tasks with the words among the next `most` tasks in the order of ids."""
    newer = sort.startswith("-") == bool(after)
    end = Subquery(find_end(query, project, sort, before, after, most))
    within = Q(id__lt=Coalesce(end, LAST_ID)) if newer else Q(id__gt=Coalesce(end, FIRST_ID))
    rows = filter_tasks(query, project, walks=True).filter(within)
    return slice_sorted(rows, sort, COLUMNS, before=before, after=after).values("id")


def find_end(
    query: TaskQuery,
    project: Project | None,
    sort: str,
    before: UUID | None,
    after: UUID | None,
    most: int,
) -> QuerySet[Any, Any]:
    """Return the id of the first task after a walk, or nothing if the walk ends the list."""
    rows = filter_tasks(common_words.unsearched(query), project)
    found = slice_sorted(rows, sort, COLUMNS, before=before, after=after, most=most + 1)
    return found.values("id")[most:]


def list_by_state(
    query: TaskQuery,
    project: Project | None,
    rank: int | None,
    before: UUID | None,
    after: UUID | None,
) -> list[UUID]:
    fetch = sort_by_state if query.is_searched else fetch_by_state
    return [row["id"] for row in fetch(query, project, rank, before, after)]


def sort_by_state(
    query: TaskQuery,
    project: Project | None,
    rank: int | None,
    before: UUID | None,
    after: UUID | None,
) -> list[Any]:
    """Return the tasks of `fetch_by_state`, but read all matching tasks first."""
    rows = filter_tasks(query, project).alias(place=rank_of_state())
    if rank is not None:
        beside = Q(id__gt=after) if after else Q(id__lt=before)
        beyond = Q(place__lt=rank) if after else Q(place__gt=rank)
        rows = rows.filter(beyond | Q(place=rank) & beside)
    ordered = ("-place", "id") if after else ("place", "-id")
    return list(rows.order_by(*ordered).values("id")[: PAGE + 1])


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
    queries = list_branches(query) or [query]
    for (number, state), each in product(enumerate(ORDER), queries):
        rows = filter_tasks(each, project).filter(state=state)
        if rank is not None and (number > rank if after else number < rank):
            continue
        if number == rank:
            rows = rows.filter(id__gt=after) if after else rows.filter(id__lt=before)
        rows = rows.order_by("id" if after else "-id")
        place = Value(number, output_field=IntegerField())
        branches.append(rows.values("id").annotate(place=place)[: PAGE + 1])
    first, *others = branches
    if not others:
        return first
    ordered = ("-place", "id") if after else ("place", "-id")
    return first.union(*others, all=len(queries) == 1).order_by(*ordered)[: PAGE + 1]


def sort_by_column(
    query: TaskQuery, project: Project | None, sort: str, *, before: UUID | None, after: UUID | None
) -> QuerySet[Any, Any]:
    # Tasks with the same value come newest first.
    if is_by_id(sort) and (branches := list_branches(query)):
        pages = (
            slice_sorted(filter_tasks(each, project), sort, COLUMNS, before=before, after=after)
            for each in branches
        )
        first, *others = (page.values("pk") for page in pages)
        rows = Task.objects.filter(pk__in=first.union(*others))
        return slice_sorted(rows, sort, COLUMNS, before=before, after=after).values("id")
    found = filter_tasks(query, project).values("pk")
    # A join may look for the words again at each task of the order.
    condition = IsAmong("id", ArraySubquery(found)) if query.is_searched else Q(pk__in=found)
    rows = Task.objects.filter(condition)
    return slice_sorted(rows, sort, COLUMNS, before=before, after=after).values("id")


def find_beside_task(query: TaskQuery, project: Project | None, sort: str, row: Task) -> Beside:
    rows = filter_tasks(query, project)
    is_common = common_words.are_common(query, project)
    sort = choose_sort(sort, is_common=is_common)
    rank = RANKS[TaskState(row.state)]
    if is_common and is_by_id(sort):
        find = partial(list_by_id, query, project, sort)
        beside = NOWHERE  # finding the task's place among all tasks with common words takes seconds
    elif sort:
        return find_beside(rows, row.pk, sort, COLUMNS)
    else:
        find = partial(list_by_state, query, project, rank)
        earlier = rows.filter(Q(state__in=ORDER[:rank]) | Q(state=row.state, id__gt=row.pk))
        beside = read_beside(rows, row.pk, earlier=earlier)
    previous, following = (
        next(iter(found), None) for found in (find(None, row.pk), find(row.pk, None))
    )
    return replace(beside, previous=previous, next=following)


def order_all(query: TaskQuery, project: Project | None, sort: str) -> QuerySet[Task]:
    rows = filter_tasks(query, project)
    sort = choose_sort(sort, is_common=common_words.are_common(query, project))
    if not sort:
        return rows.alias(place=rank_of_state()).order_by("place", "-id")
    return sort_rows(rows, sort, COLUMNS)


def rank_of_state() -> Any:
    whens = [When(state=state, then=Value(rank)) for state, rank in RANKS.items()]
    return Case(*whens, output_field=IntegerField())
