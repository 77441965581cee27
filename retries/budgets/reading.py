"""Read budgets with what is used of them, for pages."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import F, Q, QuerySet

from ledger.models import Budget, BudgetPeriod, Plan, Project, Task
from retries.budgets import asking
from retries.budgets.amounts import format_amount, format_share

MOST_LISTED = 100
NEAR_PERCENT = 80
HEAVY = ("plan__source", "plan__objective", "task__payload", "task__result", "task__error")


@dataclass(frozen=True, slots=True)
class BudgetLine:
    """A budget as pages show it."""

    budget: Budget
    scope: str  # "plan 03-01"
    share: str  # "1,040,000 of 1,000,000 tokens"
    limit: str
    granted: str  # empty if nothing was granted
    period: str
    percent: int
    is_used_up: bool
    until: datetime | None

    @property
    def tone(self) -> str:
        if self.is_used_up:
            return "red"
        return "amber" if self.percent >= NEAR_PERCENT else ""

    @property
    def width(self) -> int:
        return min(self.percent, 100)


def describe_line(budget: Budget, *, now: datetime) -> BudgetLine:
    used, limit = budget.used_now(now), budget.limit_now(now)
    is_day = budget.period == BudgetPeriod.DAY
    granted = limit - budget.amount
    return BudgetLine(
        budget=budget,
        scope=asking.name_scope(budget),
        share=format_share(used, limit, budget.unit),
        limit=format_amount(budget.amount, budget.unit),
        granted=format_amount(granted, budget.unit) if granted else "",
        period=f"per day ({budget.zone})" if is_day else "in total",
        percent=int(100 * used / limit),
        is_used_up=budget.is_used_up(now),
        until=budget.ends_at(now),
    )


def describe_lines(budgets: Iterable[Budget], *, now: datetime) -> list[BudgetLine]:
    return [describe_line(budget, now=now) for budget in budgets]


def select_budgets(about: Q) -> QuerySet[Budget]:
    rows = Budget.objects.filter(about).select_related("plan", "task", "project")
    return rows.defer(*HEAVY)


def list_of_task(task: Task, *, now: datetime) -> list[BudgetLine]:
    """Return the budgets that a task's usage counts for: its own, its plan's, its project's."""
    about = Q(project=task.project_id, plan=None, task=None) | Q(task=task.pk)
    if task.plan_id:
        about |= Q(plan=task.plan_id)
    rows = select_budgets(about).order_by(F("task").asc(nulls_last=True), "plan", "pk")
    return describe_lines(rows, now=now)


def list_of_plan(plan: Plan, *, now: datetime) -> list[BudgetLine]:
    about = Q(project=plan.project_id, plan=None, task=None) | Q(plan=plan.pk)
    rows = select_budgets(about).order_by(F("plan").asc(nulls_last=True), "pk")
    return describe_lines(rows, now=now)


def list_of_project(project: Project, *, now: datetime) -> list[BudgetLine]:
    return describe_lines(select_first(Q(project=project)), now=now)


def list_nearest(
    project: Project | None, *, among: Iterable[Project], now: datetime
) -> list[BudgetLine]:
    about = Q(project=project) if project else Q(project__in=[each.pk for each in among])
    lines = describe_lines(select_first(about), now=now)
    return sorted(lines, key=lambda line: -line.percent)


def select_first(about: Q) -> list[Budget]:
    # Of many tasks with a budget, those that were used up or came near are the ones to see.
    rows = select_budgets(about)
    whole = list(rows.filter(task=None).order_by(F("plan").desc(nulls_first=True))[:MOST_LISTED])
    of_tasks = rows.filter(task__isnull=False)
    for some, order in ((Q(near_at__isnull=False), "-near_at"), (Q(near_at=None), "-pk")):
        whole += of_tasks.filter(some).order_by(order)[: MOST_LISTED - len(whole)]
    return whole


def find_of_project(project_id: UUID, budget_id: UUID) -> Budget | None:
    return select_budgets(Q(project=project_id, pk=budget_id)).first()
