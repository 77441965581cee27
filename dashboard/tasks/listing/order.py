"""The orders of the Tasks list: what needs someone first, or by a column.

The first order joins one short read per state, each of which follows an index. With words that few
tasks have, it sorts these. A column is sorted when it is asked for, so only for lists of up to
SORTABLE tasks. A page begins beside a task: its place in the order is that of its values now.
"""

from dataclasses import replace
from typing import Any
from uuid import UUID

from django.db.models import Case, F, IntegerField, Q, QuerySet, Subquery, Value, When
from django.db.models.functions import Coalesce, Lower

from dashboard.lists.compiled_queries import compiled
from dashboard.lists.pagination import PAGE, Page, read_page
from dashboard.lists.shared_queries import title_of
from dashboard.lists.sorting import SortColumn, slice_sorted, sort_rows
from dashboard.steps import NOWHERE, Beside, find_beside, read_beside
from dashboard.tasks.filters import TaskQuery
from dashboard.tasks.listing import common_words
from dashboard.tasks.queries import add_outcomes, filter_tasks, read_tasks
from ledger import search_words
from ledger.models import Project, Task
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
DONE = RANKS[TaskState.DONE]
COLUMNS = {
    "task": SortColumn(Lower(title_of())),
    "key": SortColumn(Coalesce("ref", Value(""))),
    "agent": SortColumn(F("agent__name")),
    "type": SortColumn(F("type")),
    "priority": SortColumn(F("priority"), largest_first=True),
    "attempts": SortColumn(F("attempts"), largest_first=True),
    "created": SortColumn(F("id"), largest_first=True, is_indexed=True),
    "changed": SortColumn(F("updated_at"), largest_first=True),
}


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
    """Return one page of ids after (or before) a task, plus one."""
    beside = Task.objects.filter(pk__in=[before or after])
    if sort:
        rows = sort_by_column(query, project, sort, before=before, after=after)
        return [row["id"] for row in rows]
    state = beside.values_list("state", flat=True).first()
    if state is None:
        before = after = None
    rank = RANKS[TaskState(state)] if state else None
    is_common = common_words.are_common(query.words)
    return list_by_state(query, project, rank, before, after, is_common=is_common)


def list_by_state(
    query: TaskQuery,
    project: Project | None,
    rank: int | None,
    before: UUID | None,
    after: UUID | None,
    *,
    is_common: bool,
) -> list[UUID]:
    """Return ids by state: those after a place in the order, or backward those before it.

    `is_common` says whether many tasks have the query's words.
    """
    if not query.words:
        rows = fetch_by_state(query, project, rank, before, after)
    elif not is_common:
        rows = sort_by_state(query, project, rank, before, after)
    else:
        most = common_words.MOST_WALKED
        rows = fetch_by_state(query, project, rank, before, after, most)
        last = rows[-1]["place"] if len(rows) > PAGE else None
        is_whole = last is not None and (last >= DONE if after else last <= DONE)
        if not is_whole and list_done(query, project, rank, before, after)[most : most + 1]:
            rows = sort_by_state(query, project, rank, before, after)
    return [row["id"] for row in rows]


def list_done(
    query: TaskQuery,
    project: Project | None,
    rank: int | None,
    before: UUID | None,
    after: UUID | None,
) -> QuerySet[Any, Any]:
    """Return the ids of finished tasks after a place or before it, with or without the words."""
    rows = filter_tasks(replace(query, words=()), project).filter(state=TaskState.DONE)
    if rank == DONE:
        rows = rows.filter(id__gt=after) if after else rows.filter(id__lt=before)
    return rows.order_by("id" if after else "-id").values_list("id", flat=True)


def sort_by_state(
    query: TaskQuery,
    project: Project | None,
    rank: int | None,
    before: UUID | None,
    after: UUID | None,
) -> list[Any]:
    """Return the same tasks as `fetch_by_state`, of which it first reads all."""
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
    most_walked: int = 0,
) -> QuerySet[Any, Any]:
    """Return tasks by state: those after a place in the order, or backward those before it.

    With `most_walked`, words are looked for in each task, and in so many of the finished ones.
    """
    branches: list[QuerySet[Any, Any]] = []
    for number, state in enumerate(ORDER):
        has_word = search_words.check_task if most_walked else search_words.match_task
        rows = filter_tasks(query, project, has_word=has_word).filter(state=state)
        if rank is not None and (number > rank if after else number < rank):
            continue
        if number == rank:
            rows = rows.filter(id__gt=after) if after else rows.filter(id__lt=before)
        if most_walked and number == DONE:
            done = list_done(query, project, rank, before, after)
            end = Subquery(done[most_walked : most_walked + 1])
            rows = (
                rows.filter(id__lt=Coalesce(end, LAST_ID))
                if after
                else rows.filter(id__gt=Coalesce(end, FIRST_ID))
            )
        rows = rows.order_by("id" if after else "-id")
        place = Value(number, output_field=IntegerField())
        branches.append(rows.values("id").annotate(place=place)[: PAGE + 1])
    first, *others = branches
    if not others:
        return first
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
    rows = Task.objects.filter(pk__in=filter_tasks(query, project).values("pk"))
    return slice_sorted(rows, sort, COLUMNS, before=before, after=after).values("id")


def find_beside_task(query: TaskQuery, project: Project | None, sort: str, row: Task) -> Beside:
    rows = filter_tasks(query, project)
    if sort:
        return find_beside(rows, row.pk, sort, COLUMNS)
    rank = RANKS[TaskState(row.state)]
    earlier = rows.filter(Q(state__in=ORDER[:rank]) | Q(state=row.state, id__gt=row.pk))
    is_common = common_words.are_common(query.words)
    before = list_by_state(query, project, rank, None, row.pk, is_common=is_common)
    after = list_by_state(query, project, rank, row.pk, None, is_common=is_common)
    # to find the task's place among all with common words takes seconds
    beside = NOWHERE if is_common else read_beside(rows, row.pk, earlier=earlier)
    previous, following = (next(iter(found), None) for found in (before, after))
    return replace(beside, previous=previous, next=following)


def order_all(query: TaskQuery, project: Project | None, sort: str) -> QuerySet[Task]:
    rows = filter_tasks(query, project)
    if not sort:
        return rows.alias(place=rank_of_state()).order_by("place", "-id")
    return sort_rows(rows, sort, COLUMNS)


def rank_of_state() -> Any:
    whens = [When(state=state, then=Value(rank)) for state, rank in RANKS.items()]
    return Case(*whens, output_field=IntegerField())
