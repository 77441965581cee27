"""Count what reports used, and note when a budget is nearly or fully used.

A heartbeat may tell what its attempt has used so far. The next one and the report say more than
that, or less: only the difference counts.

The counters of a budget are changed last in a report's transaction, under a lock on its row: a
second report that crosses the limit sees that the first one did, so that each crossing is told
once. The lock is held for two short statements and the commit. Rows of usage that a clock adds up
later would hold no lock, but a claim could then start work that the limit no longer has room for.
"""

from collections.abc import Iterable
from dataclasses import dataclass
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
from retries.budgets.prices import find_cost, read_usage

CLOCK = clock("budgets")


def count_report(row: Row, stored: dict[str, Any], stamp: Stamp) -> bool:
    """Count the usage that a report, a heartbeat, or spans tell; return whether its task was moved.

    A person is then asked about that task.
    """
    found = sql.run(LOCK, project=row["project_id"], plan=row["plan_id"], task=row["id"])
    if not found:
        return False
    budgets = [Budget(**each) for each in found]
    now, has_dollars = stamp.at, any(budget.unit == BudgetUnit.USD for budget in budgets)
    used, before = [
        read_share(usage, project_id=row["project_id"], has_dollars=has_dollars, now=now)
        for usage in (stored, row["usage_before"])
    ]
    for budget in budgets:
        turn_day(budget, now=now)
    was_full = [budget.reached_at is not None for budget in budgets]
    told = [add(budget, used, before, now=now) for budget in budgets]
    counters = [{"id": str(each.pk)} | as_json(each) for each in budgets]
    sql.run(STORE, counters=Jsonb(counters))
    reached = [
        budget for budget, kinds in zip(budgets, told, strict=True) if Kind.BUDGET_REACHED in kinds
    ]
    for budget, kinds in zip(budgets, told, strict=True):
        for kind in kinds:
            note(kind, budget, stamp=Stamp(CLOCK, now))
    # The agent may take back what it said before.
    freed = [
        budget
        for budget, was in zip(budgets, was_full, strict=True)
        if was and budget.reached_at is None
    ]
    refresh_stops([*reached, *freed], now=now)
    for budget in freed:
        asking.withdraw_question(budget, stamp=Stamp(CLOCK, now))
    asked = [
        asking.ask_about(budget, near=row, now=now)
        for budget in reached
        if budget.at_limit == AtLimit.ASK
    ]
    return row["id"] in asked


@dataclass(frozen=True, slots=True)
class Share:
    """The usage of an attempt as budgets count it; `unpriced` counts its parts without a price."""

    tokens: int = 0
    cost: Decimal = Decimal(0)
    unpriced: int = 0
    model: str = ""


def read_share(
    stored: dict[str, Any] | None, *, project_id: UUID, has_dollars: bool, now: datetime
) -> Share:
    if not stored:
        return Share()
    tokens = read_usage(stored).tokens
    if not has_dollars:
        return Share(tokens)
    # Each model has its own price.
    parts = [read_usage(part) for part in stored.get("parts") or [stored]]
    costs = [find_cost(part, project_id=project_id, now=now) for part in parts]
    unpriced = [part.model for part, cost in zip(parts, costs, strict=True) if cost is None]
    known = sum((cost for cost in costs if cost is not None), Decimal(0))
    return Share(tokens, known, len(unpriced), unpriced[-1] if unpriced else "")


def add(budget: Budget, used: Share, before: Share, *, now: datetime) -> list[Kind]:
    """Add what an attempt used since `before`; return the kinds of what begins with it."""
    if budget.unit == BudgetUnit.TOKENS:
        more = Decimal(used.tokens - before.tokens)
    else:
        more = used.cost - before.cost
        budget.unpriced = max(0, budget.unpriced + used.unpriced - before.unpriced)
        if used.unpriced:
            budget.unpriced_model = truncate(used.model, MODEL_LENGTH)
    # An earlier day has counted a part of it, which does not make this day negative.
    budget.used = max(Decimal(0), budget.used + more)
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
            "text": asking.describe_with_forecast(budget, now=stamp.at),
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
