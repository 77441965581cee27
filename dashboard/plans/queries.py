"""Query the list of plans and find single ones."""

import re
from collections.abc import Iterable
from functools import partial
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Lower
from django.urls import reverse

from dashboard.lists.compiled_queries import compiled
from dashboard.lists.pagination import Page, read_page, slice_rows
from dashboard.lists.query_box import as_id, quote_words
from dashboard.lists.shared_queries import (
    PLAN_ESCALATIONS,
    CountOf,
    hash_of,
    match_age,
    match_any,
    match_period,
    match_values,
    of_project,
)
from dashboard.lists.sorting import SortColumn, slice_sorted
from dashboard.plans.filters import PlanQuery
from dashboard.plans.progress import TaskCounts
from ledger.database.optional_cache import get_or_compute_slow
from ledger.models import Plan, Project, Task
from ledger.models.plan import STANDS, PlanState

HEAVY = ("source", "objective")

# ---- the list


def filter_plans(query: PlanQuery, project: Project | None) -> QuerySet[Plan]:
    """Return the plans that match a query; a word is in the ref or the title."""
    rows = of_project(Plan.objects.all(), project).filter(
        match_any(query.state, lambda name: STANDS[PlanState(name)]),
        match_any(query.agent, has_agent),
        match_values(query.plan, "ref"),
        match_age(query.older, "updated_at"),
        match_period(query.changed, "updated_at"),
        match_period(query.created, "created_at"),
    )
    for word in query.words:
        rows = rows.filter(Q(ref__icontains=word) | Q(title__icontains=word))
    return rows.filter(id__in=query.ids) if query.ids else rows


def has_agent(name: str) -> Q:
    tasks = Task.objects.current().filter(plan=OuterRef("pk"), agent__name=name)
    return Q(Exists(tasks))


COLUMNS = {
    "ref": SortColumn(F("ref")),
    "title": SortColumn(Lower("title")),
    "run": SortColumn(F("run"), largest_first=True),
    "updated": SortColumn(F("updated_at"), largest_first=True),
}


def list_plans(
    query: PlanQuery,
    project: Project | None,
    sort: str = "",
    *,
    before: UUID | None,
    after: UUID | None,
) -> Page[Any]:
    """Return a page of plans, each with `task_counts` and open questions."""
    plans = read_page(partial(fetch_plans, query, project, sort), before=before, after=after)
    counts = count_tasks(plan.pk for plan in plans.rows)
    for plan in plans.rows:
        plan.task_counts = counts.get(plan.pk) or TaskCounts()
    return plans


def fetch_plans(
    query: PlanQuery,
    project: Project | None,
    sort: str,
    *,
    before: UUID | None,
    after: UUID | None,
) -> list[Any]:
    if not sort:
        return fetch_newest_plans(query, project, before, after)
    rows = with_questions(filter_plans(query, project))
    return list(slice_sorted(rows, sort, COLUMNS, before=before, after=after))


@compiled
def fetch_newest_plans(
    query: PlanQuery, project: Project | None, before: UUID | None, after: UUID | None
) -> QuerySet[Any]:
    rows = with_questions(filter_plans(query, project))
    return slice_rows(rows, before=before, after=after)


def with_questions(rows: QuerySet[Plan]) -> QuerySet[Any]:
    found: QuerySet[Any] = rows.select_related("project").annotate(
        questions=CountOf(PLAN_ESCALATIONS.values("pk")),
        question=Subquery(PLAN_ESCALATIONS.order_by("id").values("pk")[:1]),
    )
    return found.defer(*HEAVY)


def count_tasks(plan_ids: Iterable[UUID]) -> dict[UUID, TaskCounts]:
    """Return the numbers of current tasks by plan, read with one statement."""
    ids = tuple(plan_ids)
    counts: dict[UUID, TaskCounts] = {}
    for row in fetch_task_counts(ids) if ids else []:
        of_plan = counts.setdefault(row["plan"], TaskCounts())
        of_plan.states[row["state"]] += row["n"]
        of_plan.agents[row["agent__name"]] += row["n"]
    return counts


@compiled
def fetch_task_counts(plan_ids: tuple[UUID, ...]) -> QuerySet[Any, Any]:
    rows = Task.objects.current().filter(plan__in=plan_ids).order_by()
    return rows.values("plan", "state", "agent__name").annotate(n=Count("*"))


def count_plans(query: PlanQuery, project: Project | None) -> dict[str, int]:
    """Return the number of plans that match a query, by state and for all."""
    anything = query.stateless()

    def count() -> dict[str, int]:
        by_state = {state.value: Count("pk", filter=rows) for state, rows in STANDS.items()}
        plans = filter_plans(anything, project).order_by()
        counts: dict[str, int] = plans.aggregate(all=Count("pk"), **by_state)
        return counts

    where = project.id if project else "all"
    return get_or_compute_slow(f"plans:{where}:{hash_of(anything)}", count)


# ---- one plan


def find_plan(plan_id: UUID) -> Plan | None:
    return next(iter(fetch_plan(plan_id)), None)


@compiled
def fetch_plan(plan_id: UUID) -> QuerySet[Plan]:
    found = Plan.objects.filter(pk=plan_id).select_related("project").defer("source")
    return found.annotate(file_lines=F("source__lines"))


def find_plan_by_name(name: str, project: Project | None) -> Plan | None:
    """Return the plan with this id, or the newest plan with this ref."""
    plans = of_project(Plan.objects.select_related("project"), project).order_by("-id")
    id = as_id(name)
    return plans.filter(pk=id).first() if id else plans.filter(ref=name).first()


REF = re.compile(r"[A-Za-z0-9.]+-[A-Za-z0-9.]+(?P<task>:\S+)?")


def find_url(text: str, project: Project | None) -> str:
    """Return the URL of the plan or current task with this ref, or an empty string.

    If several projects have one, the URL is that of their list.
    """
    match = REF.fullmatch(text)
    if match is None:
        return ""
    if match["task"]:
        tasks = of_project(Task.objects.current().filter(ref=text), project)
        return url_of(tasks.order_by("project", "-run").distinct("project"), text, "task")
    plans = of_project(Plan.objects.filter(ref=text), project)
    return url_of(plans.order_by("-id"), text, "plan")


def url_of(rows: QuerySet[Any], text: str, page: str) -> str:
    """Return the URL of the only row, or of the list that the text finds if there are more."""
    found = list(rows.values_list("pk", flat=True)[:2])
    if len(found) > 1:
        return f"{reverse(f'dashboard:{page}s')}?{urlencode({'q': quote_words(text)})}"
    return reverse(f"dashboard:{page}", args=found) if found else ""
