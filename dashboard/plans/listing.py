"""The list of plans: `state:active agent:coder created:7d billing`."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db.models import (
    Case,
    CharField,
    Count,
    Exists,
    F,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
    When,
)
from django.db.models.functions import Lower

from dashboard.frame.rendering import Visit
from dashboard.listing import Column, Listing, ListPage, State, any_of, equals, older_than, within
from dashboard.lists.compiled_queries import compiled
from dashboard.lists.query_box import ANY, Names, StateQuery, Values
from dashboard.lists.query_values import Period, read_age, read_period
from dashboard.lists.shared_queries import PLAN_ESCALATIONS, CountOf
from dashboard.lists.sorting import SortColumn, largest
from dashboard.plans import progress
from dashboard.plans.progress import ProgressBar, StateCount, TaskCounts
from ledger.models import Plan, Task
from ledger.models.plan import STANDS, PlanState
from ledger.states import TaskState
from retries.models import PlanForecast

AGENTS_SHOWN = 3
FORECAST = PlanForecast.objects.filter(plan=OuterRef("pk"), run=OuterRef("run"), is_kept=False)
STATE = Case(
    *(When(condition, then=Value(state.value)) for state, condition in STANDS.items()),
    output_field=CharField(),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanQuery(StateQuery):
    agent: Values = ANY
    plan: Values = ANY
    older: timedelta | None = None  # the time since the last change
    changed: Period | None = None
    created: Period | None = None


def has_agent(name: str) -> Q:
    tasks = Task.objects.current().filter(plan=OuterRef("pk"), agent__name=name)
    return Q(Exists(tasks))


class PlanList(Listing[PlanQuery]):
    name = "plans"
    row_page = "plan"
    current = "plans"
    heading = "Plans"
    nouns = "plans"

    model = Plan
    query = PlanQuery
    keys = {
        "agent": Names(),
        "plan": Names(),
        "state": Names(tuple(PlanState.values)),
        "older": read_age("older"),
        "changed": read_period("changed"),
        "created": read_period("created"),
    }
    conditions = {
        "agent": any_of(has_agent),
        "plan": equals("ref"),
        "older": older_than("updated_at"),
        "changed": within("updated_at"),
        "created": within("created_at"),
    }
    searched = ("ref", "title")
    states = {state.value: State(state.value.capitalize()) for state in PlanState}

    template = "plans/index.html"
    part = "plans/_plans.html"
    row = "plans/_row.html"
    empty = "plans/_none.html"
    table = "tbl rows rows--plain"
    example = "words in the ref or title, agent:coder  created:7d"
    columns = (
        Column("State"),
        Column("Ref", "c-sm", "ref", SortColumn(F("ref"))),
        Column("Title", "", "title", SortColumn(Lower("title"))),
        Column("Progress"),
        Column("Now", "c-md"),
        Column("Done by", "c-lg"),
        Column("Agents", "c-lg"),
        Column("Run", "c-lg r", "run", largest(F("run"))),
        Column("Updated", "r", "updated", largest(F("updated_at"))),
    )

    export_columns = {
        "id": "id",
        "project": "project__name",
        "ref": "ref",
        "title": "title",
        "state": "stands",
        "run": "run",
        "created_by": "created_by_name",
        "created_at": "created_at",
        "updated_at": "updated_at",
        "paused_at": "paused_at",
        "completed_at": "completed_at",
        "aborted_at": "aborted_at",
    }

    def in_state(self, name: str) -> Q:
        return STANDS[PlanState(name)]

    def read_counts(self, rows: QuerySet[Any]) -> dict[str, int]:
        by_state = {state.value: Count("pk", filter=found) for state, found in STANDS.items()}
        counts: dict[str, int] = rows.aggregate(all=Count("pk"), **by_state)
        return counts

    def load(self, rows: QuerySet[Any], opened: UUID | None) -> QuerySet[Any]:
        found: QuerySet[Any] = rows.select_related("project").annotate(
            questions=CountOf(PLAN_ESCALATIONS.values("pk")),
            question=Subquery(PLAN_ESCALATIONS.order_by("id").values("pk")[:1]),
            done_by=Case(
                When(STANDS[PlanState.ACTIVE], then=Subquery(FORECAST.values("median_at")))
            ),
        )
        return found.defer("source", "objective")

    def build_entries(self, page: ListPage, visit: Visit) -> list[Any]:
        counts = count_tasks(plan.pk for plan in page.page.rows)
        return [build_row(plan, counts.get(plan.pk) or TaskCounts()) for plan in page.page.rows]

    def for_export(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        found: QuerySet[Any] = rows.annotate(stands=STATE)
        return found


PLANS = PlanList()


# ---- the rows


@dataclass(frozen=True, slots=True)
class PlanRow:
    """A plan with its bar, the number of open tasks by state, and its first agents."""

    plan: Any
    tasks: TaskCounts
    bar: ProgressBar
    counts: list[StateCount]
    agents: list[str]
    more_agents: int


def count_tasks(plan_ids: Iterable[UUID]) -> dict[UUID, TaskCounts]:
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


def build_row(plan: Any, counts: TaskCounts) -> PlanRow:
    agents = [name for name, _ in counts.agents.most_common()]
    states = Counter(counts.states)
    if plan.questions:  # the row links to the questions instead
        del states[TaskState.ESCALATED]
    return PlanRow(
        plan,
        counts,
        progress.build_bar(counts.states),
        progress.list_state_counts(states),
        agents[:AGENTS_SHOWN],
        max(len(agents) - AGENTS_SHOWN, 0),
    )
