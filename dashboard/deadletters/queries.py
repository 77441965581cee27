"""Queries of the Dead letters pages: the list, its counts, and one dead letter."""

from collections.abc import Sequence
from functools import partial
from typing import Any
from uuid import UUID

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Count, F, JSONField, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import JSONObject, Left, Lower

from dashboard.deadletters.causes import CauseCounts
from dashboard.lists.compiled_queries import compiled
from dashboard.lists.pagination import Page, read_page, slice_rows
from dashboard.lists.query_box import ANY
from dashboard.lists.shared_queries import (
    CountOf,
    bound_ids,
    failed_in_pattern,
    hash_of,
    match_age,
    match_any,
    match_period,
    match_values,
    name_params,
    of_project,
    title_of,
)
from dashboard.lists.sorting import SortColumn, slice_sorted
from dashboard.tasks.filters import ERRORS, LETTER_STATES, TaskQuery
from dashboard.tasks.queries import OUTCOMES_SHOWN, add_outcomes
from ledger.database import sql
from ledger.database.optional_cache import get_or_compute_slow
from ledger.models import Attempt, DeadLetter, Failure, Need, Project
from ledger.states import TaskState
from retries.models import FailurePattern

RECENT = 4
COUNTED = 1_000  # dead letters whose causes are counted, the newest of a list
FAILURES_OF_TASK = 50
TEMPLATE_LENGTH = 240
# the columns of a row in the list
COLUMNS = (
    *("type", "error", "failed_at", "closed_at", "closed_as", "agent__name", "project__name"),
    *("task__title", "task__type", "task__ref", "task__attempts", "task__attempt_limit"),
    "task__carries_id",
)
RECENT_COLUMNS = (
    *("closed_at", "closed_as", "closed_by_name", "note", "replayed_as__state"),
    *("task__title", "task__type"),
)


def filter_deadletters(query: TaskQuery, project: Project | None) -> QuerySet[DeadLetter]:
    """Return the dead letters of a query: open ones unless it names a state or an id."""
    rows = of_project(DeadLetter.objects.all(), project).filter(
        match_values(query.agent, "agent__name"),
        match_values(query.type, "type"),
        match_values(query.plan, "task__plan__ref"),
        match_values(query.reason, "reason"),
        match_any(query.error, failed_with),
        match_any(query.pattern, lambda text: Q(task__in=failed_in_pattern(text, project))),
        match_age(query.older, "failed_at"),
        match_period(query.failed, "failed_at"),
        bound_ids(query.failed),
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


def failed_with(text: str) -> Q:
    """Return the condition that an error contains the text, or that a failure has that type."""
    if text not in ERRORS:
        return Q(error__icontains=text)
    same = Failure.objects.filter(task=OuterRef("task"), type=text)
    return Q(task__in=Subquery(same.values("task")))


def with_extras(rows: QuerySet[DeadLetter]) -> QuerySet[Any]:
    """Return the rows with further columns for the list."""
    last = Failure.objects.filter(task=OuterRef("task")).order_by("-id")
    attempts = Attempt.objects.filter(task=OuterRef("task")).order_by("-number")
    waiting = Need.objects.filter(need=OuterRef("task"), task__state=TaskState.BLOCKED)
    # the pattern of the last failure
    pattern = FailurePattern.objects.filter(grouped__failure__task=OuterRef("task"))
    shown = JSONObject(
        id="id",
        fingerprint="fingerprint",
        template=Left("template", TEMPLATE_LENGTH),
        first_seen="first_seen",
    )
    return rows.select_related("task", "agent", "project").annotate(
        cause_pattern=Subquery(
            pattern.order_by("-grouped__failure_id").values(shown=shown)[:1],
            output_field=JSONField(),
        ),
        failure_type=Subquery(last.values("type")[:1]),
        last_outcomes=ArraySubquery(attempts.values("outcome")[:OUTCOMES_SHOWN]),
        waiting=CountOf(waiting.order_by().values("task_id")),
    )


SORT_COLUMNS = {
    "name": SortColumn(Lower(title_of("task__"))),
    "agent": SortColumn(F("agent__name")),
    "type": SortColumn(F("type")),
    "attempts": SortColumn(F("task__attempts"), largest_first=True),
    "failed": SortColumn(F("id"), largest_first=True, is_indexed=True),
}
DEFAULT_SORT = "-failed"


def list_deadletters(
    query: TaskQuery,
    project: Project | None,
    sort: str = "",
    *,
    before: UUID | None,
    after: UUID | None,
) -> Page[Any]:
    page = read_page(partial(fetch_deadletters, query, project, sort), before=before, after=after)
    add_task_outcomes(page.rows)
    return page


def fetch_deadletters(
    query: TaskQuery,
    project: Project | None,
    sort: str,
    *,
    before: UUID | None,
    after: UUID | None,
) -> list[Any]:
    if not sort:
        return fetch_newest_deadletters(query, project, before, after)
    rows = with_extras(filter_deadletters(query, project)).only(*COLUMNS)
    return list(slice_sorted(rows, sort, SORT_COLUMNS, before=before, after=after))


@compiled
def fetch_newest_deadletters(
    query: TaskQuery, project: Project | None, before: UUID | None, after: UUID | None
) -> QuerySet[Any]:
    rows = with_extras(filter_deadletters(query, project)).only(*COLUMNS)
    return slice_rows(rows, before=before, after=after)


def add_task_outcomes(letters: Sequence[Any]) -> None:
    """Set `outcomes` of each task: those of its last attempts."""
    for letter in letters:
        letter.task.last_outcomes = letter.last_outcomes
    add_outcomes(letter.task for letter in letters)


@compiled
def list_recently_closed(project: Project | None) -> QuerySet[Any]:
    """Return the dead letters that were replayed or dismissed last."""
    rows = of_project(DeadLetter.objects.exclude(closed_at=None), project)
    found = rows.select_related("task", "replayed_as").only(*RECENT_COLUMNS)
    return found.order_by("-closed_at", "-id")[:RECENT]


def count_deadletters(query: TaskQuery, project: Project | None) -> dict[str, int]:
    """Count the dead letters of a query by state, without the states that it asks for."""
    anything = query.stateless(LETTER_STATES)

    def count() -> dict[str, int]:
        rows = (
            filter_deadletters(anything, project)
            .order_by()
            .values("closed_as")
            .annotate(n=Count("*"))
        )
        found = {row["closed_as"] or "open": row["n"] for row in rows}
        return {name: found.get(name, 0) for name in LETTER_STATES}

    return get_or_compute_slow(
        f"letters:{project.id if project else 'all'}:{hash_of(anything)}", count
    )


# The lookups have limits, so that no plan can read all failures of the patterns instead.
CAUSES = f"""with letters as materialized ({{matching}})
select g.pattern_id, count(*) as total, count(*) filter (where l.closed_at is null) as open,
    sum(l.attempts)::int as attempts, max(l.failed_at) as last_at,
    array_agg(distinct l.agent_name order by l.agent_name) as agents, sum(w.n)::int as waiting,
    (select count(*) from letters) >= %(most)s as are_some
from letters l
cross join lateral (
    select distinct g.pattern_id from (
        select f.id from ledger_failure f where f.task_id = l.task_id limit {FAILURES_OF_TASK}
    ) f
    cross join lateral (
        select g.pattern_id from retries_grouped g where g.failure_id = f.id limit 1
    ) g where g.pattern_id = any(%(ids)s)
) g
cross join lateral (
    select count(*) as n from ledger_need n join ledger_task d on d.id = n.task_id
    where n.need_id = l.task_id and d.state = '{TaskState.BLOCKED}'
) w
group by 1"""


def count_causes(
    query: TaskQuery, project: Project | None, ids: list[UUID]
) -> dict[UUID, CauseCounts]:
    """Count the dead letters of a query that failed in each of these patterns.

    Of a long list, the newest are counted.
    """

    def count() -> dict[UUID, CauseCounts]:
        rows = filter_deadletters(query, project).order_by("-id")
        names = {"agent_name": F("agent__name"), "attempts": F("task__attempts")}
        columns = ("id", "task_id", "closed_at", "failed_at")
        matching, params = name_params(rows.values(*columns, **names)[:COUNTED])
        statement = CAUSES.format(matching=matching)
        found = sql.run_custom_plan(statement, ids=ids, most=COUNTED, **params)
        return {row.pop("pattern_id"): CauseCounts(**row) for row in found}

    if not ids:
        return {}
    where = project.id if project else "all"
    return get_or_compute_slow(f"letters:causes:{where}:{hash_of((query, ids))}", count)


def find_deadletter(letter_id: UUID) -> Any:
    """Return a dead letter with all its columns, or None."""
    rows = with_extras(DeadLetter.objects.filter(pk=letter_id))
    found = rows.select_related("task__plan", "replayed_as").defer("task__plan__source").first()
    add_task_outcomes([found] if found else [])
    return found
