"""Count what reports used, and note when a budget is nearly or fully used.

The counters of a budget are changed last in a report's transaction, under a lock on its row: a
second report that crosses the limit sees that the first one did, so that each crossing is told
once. The lock is held for two short statements and the commit. Rows of usage that a clock adds up
later would hold no lock, but a claim could then start work that the limit no longer has room for.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from ledger import journal
from ledger.database import sql
from ledger.database.sql import Row
from ledger.journal import Kind, Stamp, clock
from ledger.models import AtLimit, Budget, BudgetPeriod, BudgetUnit
from ledger.models.budget import FOREVER, MODEL_LENGTH, NOTICE_AT
from ledger.values.text import truncate
from ledger.values.timestamps import format_timestamp
from retries.budgets import asking
from retries.budgets.prices import Usage, find_cost, read_usage
from retries.traces.usage import SOURCE, find_counted

CLOCK = clock("budgets")


def count_report(row: Row, stored: dict[str, Any], stamp: Stamp) -> bool:
    """Count a report's usage; return whether its own task was moved, to ask a person.

    The usage of spans was counted when they came: of a report, only what is beyond it counts.
    """
    found = sql.run(LOCK, project=row["project_id"], plan=row["plan_id"], task=row["id"])
    if not found:
        return False
    budgets = [Budget(**each) for each in found]
    usage, now = read_usage(stored), stamp.at
    cost = None
    if any(budget.unit == BudgetUnit.USD for budget in budgets):
        cost = find_cost(usage, project_id=row["project_id"], now=now)
    if SOURCE not in stored and (counted := read_usage(find_counted(row["attempt_id"]))).tokens:
        if cost is not None:
            earlier = find_cost(counted, project_id=row["project_id"], now=now)
            cost = max(Decimal(0), cost - (earlier or 0))
        usage = replace(usage, input=max(0, usage.tokens - counted.tokens), output=0)
    told = [add(budget, usage, cost, now=now) for budget in budgets]
    counters = [{"id": str(each.pk)} | as_json(each) for each in budgets]
    sql.run(STORE, counters=Jsonb(counters))
    reached = [
        budget for budget, kinds in zip(budgets, told, strict=True) if Kind.BUDGET_REACHED in kinds
    ]
    for budget, kinds in zip(budgets, told, strict=True):
        for kind in kinds:
            note(kind, budget, stamp=Stamp(CLOCK, now))
    refresh_stops(reached, now=now)
    asked = [
        asking.ask_about(budget, near=row, now=now)
        for budget in reached
        if budget.at_limit == AtLimit.ASK
    ]
    return row["id"] in asked


def add(budget: Budget, usage: Usage, cost: Decimal | None, *, now: datetime) -> list[Kind]:
    """Add a report's usage to a budget's counters; return the kinds of what begins with it."""
    turn_day(budget, now=now)
    if budget.unit == BudgetUnit.TOKENS:
        budget.used += usage.tokens
    elif cost is not None:
        budget.used += cost
    else:
        budget.unpriced += 1
        budget.unpriced_model = truncate(usage.model, MODEL_LENGTH)
    return mark(budget, now=now)


def turn_day(budget: Budget, *, now: datetime) -> None:
    # A clock that is set back does not bring back an earlier day.
    today = budget.find_today(now)
    if budget.period == BudgetPeriod.TOTAL or (budget.day and budget.day >= today):
        return
    budget.day = today
    budget.used = budget.granted = Decimal(0)
    budget.unpriced, budget.unpriced_model = 0, ""
    budget.near_at = budget.reached_at = budget.asked_at = None


def mark(budget: Budget, *, now: datetime) -> list[Kind]:
    """Note when the budget came near its limit and reached it; return what begins now."""
    limit, kinds = budget.amount + budget.granted, []
    is_reached = budget.used >= limit
    if budget.used < NOTICE_AT * limit:
        budget.near_at = None
    elif budget.near_at is None:
        budget.near_at = now
        kinds += [] if is_reached else [Kind.BUDGET_NEAR]
    if not is_reached:
        budget.reached_at = budget.asked_at = None
    elif budget.reached_at is None:
        budget.reached_at = now
        kinds.append(Kind.BUDGET_REACHED)
    return kinds


# Prepared, in one statement for all budgets, because reports of the project wait for it.
TYPES = {
    "used": "numeric",
    "granted": "numeric",
    "day": "date",
    "unpriced": "int",
    "unpriced_model": "text",
    "near_at": "timestamptz",
    "reached_at": "timestamptz",
    "asked_at": "timestamptz",
}
STORE = f"""update ledger_budget b set {", ".join(f"{name} = n.{name}" for name in TYPES)}
from jsonb_to_recordset(%(counters)s) as n(
    id uuid, {", ".join(f"{name} {type}" for name, type in TYPES.items())}) where b.id = n.id"""
LOCK = f"""select {", ".join(f"b.{field.column}" for field in Budget._meta.concrete_fields)}
from ledger_budget b where b.task_id = %(task)s or b.plan_id = %(plan)s
    or b.project_id = %(project)s and b.plan_id is null and b.task_id is null
order by b.id for no key update"""


def as_json(budget: Budget) -> dict[str, Any]:
    values = {name: getattr(budget, name) for name in TYPES}
    return {
        name: str(value) if isinstance(value, Decimal | date) else value
        for name, value in values.items()
    }


def store(budget: Budget, *more: str) -> None:
    names = (*TYPES, *more)
    Budget.objects.filter(pk=budget.pk).update(**{name: getattr(budget, name) for name in names})


def note(kind: Kind, budget: Budget, *, stamp: Stamp, **data: Any) -> None:
    until = budget.ends_at(stamp.at)
    limit = budget.limit_now(stamp.at)
    journal.record(
        kind,
        subject_type="budget",
        subject_id=budget.pk,
        project_id=budget.project_id,
        stamp=stamp,
        data={
            "name": asking.name_scope(budget),
            "scope": budget.scope,
            "period": budget.period,
            "unit": budget.unit,
            "used": as_number(budget.used_now(stamp.at)),
            "limit": as_number(limit),
            "text": asking.describe_figures(budget, now=stamp.at),
        }
        | ({"until": format_timestamp(until)} if until else {})
        | ({"plan": str(budget.plan_id)} if budget.plan_id else {})
        | ({"task": str(budget.task_id)} if budget.task_id else {})
        | data,
    )


def as_number(number: Decimal) -> int | float:
    return int(number) if number == number.to_integral_value() else float(number)


# ---- the mark on what is used up, which claims read


def stop_statement(table: str, column: str) -> str:
    of_project = " and b.plan_id is null and b.task_id is null" if column == "project_id" else ""
    spent = f"""(select max(case b.period when 'total' then %(forever)s::timestamptz
            else ((b.day + 1)::timestamp at time zone b.zone) end)
        from ledger_budget b where b.{column} = s.id{of_project} and b.used >= b.amount + b.granted
            and (b.period = 'total'
                or b.day >= (%(now)s::timestamptz at time zone b.zone)::date))"""
    return f"""update {table} s set spent_until = {spent}
    where s.id = any(%(ids)s) and s.spent_until is distinct from {spent}"""


STOPS = {
    "task_id": stop_statement("ledger_task", "task_id"),
    "plan_id": stop_statement("ledger_plan", "plan_id"),
    "project_id": stop_statement("ledger_project", "project_id"),
}


HOLDS = {
    column: f"select id from {table} where id = any(%(ids)s) order by id for no key update"
    for column, table in (
        ("task_id", "ledger_task"),
        ("plan_id", "ledger_plan"),
        ("project_id", "ledger_project"),
    )
}


def refresh_stops(budgets: Iterable[Budget], *, now: datetime) -> None:
    """Mark the tasks, plans and projects of these budgets as used up, or as free."""
    # The rows are locked first: of two budgets of one plan that change at once, the later
    # statement then sees what the other transaction changed.
    ids: dict[str, list[UUID]] = {name: [] for name in STOPS}
    for budget in budgets:
        name = f"{budget.scope}_id"
        ids[name].append(getattr(budget, name))
    for name, found in ids.items():
        if found:
            sql.run(HOLDS[name], ids=sorted(set(found)))
            sql.run(STOPS[name], ids=sorted(set(found)), forever=FOREVER, now=now)
