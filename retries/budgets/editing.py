"""Set, change and remove budgets, and grant more of one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo, available_timezones

from django.conf import settings

from ledger.database import sql
from ledger.errors import Invalid, NotFound, VersionMismatch
from ledger.journal import Kind, Stamp
from ledger.models import AtLimit, Budget, BudgetPeriod, BudgetUnit, Plan, Task
from retries.budgets import asking, counting
from retries.budgets.amounts import EXAMPLES, check_number, format_amount, parse_amount
from retries.budgets.prices import Usage, find_cost
from retries.models import Escalation

# What was used before the budget was set, by model, also by attempts that run. A project's budget
# in total counts from when it is set: all of its attempts may be many.
EARLIER = """select coalesce(u.part ->> 'model', '') as model,
    u.part ? 'cost_usd' as has_cost,
    count(*)::int as reports,
    coalesce(sum((u.part ->> 'cost_usd')::numeric), 0) as cost,
    coalesce(sum((u.part ->> 'input_tokens')::numeric), 0)::int8 as input,
    coalesce(sum((u.part ->> 'cached_tokens')::numeric), 0)::int8 as cached,
    coalesce(sum((u.part ->> 'cache_write_tokens')::numeric), 0)::int8 as written,
    coalesce(sum((u.part ->> 'output_tokens')::numeric), 0)::int8 as output
from ledger_attempt a
    cross join lateral jsonb_array_elements(
        coalesce(a.usage -> 'parts', jsonb_build_array(a.usage))) u(part)
where a.usage is not null and coalesce(a.ended_at <= %(now)s, true)
    and (%(since)s::timestamptz is null or coalesce(a.ended_at >= %(since)s, true)) and {of}
group by 1, 2"""
OF = {
    "task": "a.task_id = %(of)s",
    "plan": "a.task_id in (select t.id from ledger_task t where t.plan_id = %(of)s)",
    # An attempt takes at most a day: the ids bound what is read.
    "project": """a.agent_id in (select g.id from ledger_agent g where g.project_id = %(of)s)
        and a.id >= (select uuidv7(%(since)s::timestamptz - clock_timestamp()
            - interval '1 day 1 minute'))""",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSpec:
    """The limit of a budget and its terms, as a caller sets them."""

    unit: str
    amount: Decimal
    period: str = BudgetPeriod.TOTAL.value
    at_limit: str = AtLimit.ASK.value
    zone: str = ""
    pointer: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Scope:
    """A project, or a plan or a task of it."""

    project_id: UUID
    plan_id: UUID | None = None
    task_id: UUID | None = None

    @property
    def columns(self) -> dict[str, UUID | None]:
        return {"project_id": self.project_id, "plan_id": self.plan_id, "task_id": self.task_id}


def read_spec(given: Any, *, pointer: str = "") -> BudgetSpec:
    """Return the budget that a request body describes: see `ledger.schemas.budgets`."""
    is_tokens = given.tokens is not None
    return BudgetSpec(
        unit=BudgetUnit.TOKENS.value if is_tokens else BudgetUnit.USD.value,
        amount=Decimal(str(given.tokens if is_tokens else given.usd)),
        period=given.period,
        at_limit=given.at_limit,
        zone=given.zone,
        pointer=pointer,
    )


def read_declared(value: Any, *, pointer: str) -> BudgetSpec:
    """Return the budget that a plan's file names: an amount with its unit, or an object."""
    if isinstance(value, str):
        limit = parse_amount(value, pointer=pointer)
        return check_spec(BudgetSpec(unit=limit.unit, amount=limit.number, pointer=pointer))
    units = [unit for unit in BudgetUnit.values if value.get(unit) is not None]
    number = value[units[0]] if len(units) == 1 else None
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise Invalid(pointer, f"Set either 'tokens' or 'usd' to a number, or write {EXAMPLES}.")
    terms = {name: str(value[name]) for name in ("period", "at_limit", "zone") if value.get(name)}
    return check_spec(
        BudgetSpec(unit=units[0], amount=Decimal(str(number)), pointer=pointer, **terms)
    )


def check_spec(spec: BudgetSpec) -> BudgetSpec:
    at = spec.pointer
    for name, values in (
        ("unit", BudgetUnit.values),
        ("period", BudgetPeriod.values),
        ("at_limit", AtLimit.values),
    ):
        if getattr(spec, name) not in values:
            raise Invalid(f"{at}/{name}", f"{name} is one of: {', '.join(values)}.")
    if spec.zone and spec.zone not in available_timezones():
        raise Invalid(f"{at}/zone", "Give the zone as a name such as 'Europe/Berlin'.")
    return BudgetSpec(
        unit=spec.unit,
        amount=check_number(spec.amount, spec.unit, pointer=f"{at}/{spec.unit}"),
        period=spec.period,
        at_limit=spec.at_limit,
        zone=spec.zone or settings.TIME_ZONE,
        pointer=at,
    )


@sql.atomic
def set_budget(scope: Scope, spec: BudgetSpec, *, only_new: bool = False, stamp: Stamp) -> Budget:
    """Set a budget of a task, a plan or a project.

    One of the same period and unit is changed, but not with `only_new`.
    """
    spec = check_spec(spec)
    of = Budget.objects.filter(
        project=scope.project_id,
        plan=scope.plan_id,
        task=scope.task_id,
        period=spec.period,
        unit=spec.unit,
    )
    if known := of.select_for_update(no_key=True).first():
        if only_new:
            return known
        return change(
            known, amount=spec.amount, at_limit=spec.at_limit, zone=spec.zone, stamp=stamp
        )
    budget, is_new = of.get_or_create(
        **scope.columns,
        period=spec.period,
        unit=spec.unit,
        defaults={
            "amount": spec.amount,
            "at_limit": spec.at_limit,
            "zone": spec.zone,
            "created_by_name": stamp.actor.name,
            "created_at": stamp.at,
            "updated_at": stamp.at,
        },
    )
    if not is_new:  # another one came first
        return set_budget(scope, spec, only_new=only_new, stamp=stamp)
    budget.refresh_from_db()
    count_earlier(budget, now=stamp.at)
    settle(budget, stamp=stamp)
    counting.note(Kind.BUDGET_SET, budget, stamp=stamp)
    return budget


@sql.atomic
def change_budget(
    budget_id: UUID,
    *,
    amount: Decimal | None = None,
    at_limit: str | None = None,
    zone: str | None = None,
    version: int | None = None,
    stamp: Stamp,
) -> Budget:
    budget = lock(budget_id)
    if version not in (None, budget.version):
        raise VersionMismatch(
            f"You read version {version}, but the budget is at version {budget.version} now.",
            current=budget.version,
        )
    spec = check_spec(
        BudgetSpec(
            unit=budget.unit,
            amount=budget.amount if amount is None else amount,
            period=budget.period,
            at_limit=at_limit or budget.at_limit,
            zone=zone or budget.zone,
        )
    )
    return change(budget, amount=spec.amount, at_limit=spec.at_limit, zone=spec.zone, stamp=stamp)


def lock(budget_id: UUID) -> Budget:
    budget = Budget.objects.filter(pk=budget_id).select_for_update(no_key=True).first()
    if budget is None:
        raise NotFound(f"There is no budget {budget_id} here.")
    return budget


def change(budget: Budget, *, amount: Decimal, at_limit: str, zone: str, stamp: Stamp) -> Budget:
    # A change to what it is changes nothing.
    if (budget.amount, budget.at_limit, budget.zone) == (amount, at_limit, zone):
        return budget
    before = as_data(budget)
    budget.amount, budget.at_limit, budget.zone = amount, at_limit, zone
    budget.version += 1
    settle(budget, stamp=stamp)
    counting.note(Kind.BUDGET_SET, budget, stamp=stamp, before=before)
    return budget


def as_data(budget: Budget) -> Mapping[str, Any]:
    return {"limit": counting.as_number(budget.amount), "at_limit": budget.at_limit}


def settle(budget: Budget, *, stamp: Stamp) -> None:
    """Store a changed budget with what follows from it: marks, notices, and its question."""
    budget.updated_at = stamp.at
    counting.turn_day(budget, now=stamp.at)
    kinds = counting.mark(budget, now=stamp.at)
    counting.store(budget, "amount", "at_limit", "zone", "version", "updated_at")
    counting.refresh_stops([budget], now=stamp.at)
    for kind in kinds:
        counting.note(kind, budget, stamp=Stamp(counting.CLOCK, stamp.at))
    if budget.reached_at is None or budget.at_limit == AtLimit.STOP:
        asking.withdraw_question(budget, stamp=stamp)
    elif budget.at_limit == AtLimit.ASK:
        asking.ask_about(budget, now=stamp.at)


@sql.atomic
def remove_budget(budget_id: UUID, *, stamp: Stamp) -> Budget:
    budget = lock(budget_id)
    counting.note(Kind.BUDGET_REMOVED, budget, stamp=stamp)
    asking.withdraw_question(budget, stamp=stamp)
    budget.delete()
    budget.pk = budget_id
    counting.refresh_stops([budget], now=stamp.at)
    return budget


@sql.atomic
def grant(budget_id: UUID, number: Decimal, *, stamp: Stamp) -> Budget:
    """Grant more: to a budget per day for this day, to one in total for all time."""
    budget = lock(budget_id)
    counting.turn_day(budget, now=stamp.at)
    number = check_number(number, budget.unit, pointer="/amount")
    check_number(budget.amount + budget.granted + number, budget.unit, pointer="/amount")
    budget.granted += number
    budget.version += 1
    budget.updated_at = stamp.at
    counting.mark(budget, now=stamp.at)
    if budget.reached_at:  # it still has no room, and a person should know
        budget.asked_at = None
    counting.store(budget, "version", "updated_at")
    counting.refresh_stops([budget], now=stamp.at)
    granted = format_amount(number, budget.unit)
    counting.note(Kind.BUDGET_GRANTED, budget, stamp=stamp, granted=granted)
    return budget


@sql.atomic
def grant_and_free(budget_id: UUID, number: Decimal, *, stamp: Stamp) -> Budget:
    """Grant more without an answer: the open question about it needs none any more."""
    budget = grant(budget_id, number, stamp=stamp)
    if budget.reached_at is None:
        asking.withdraw_question(budget, stamp=stamp)
    return budget


def grant_by_answer(escalation: Escalation, words: str, stamp: Stamp) -> None:
    """Grant what the answer to a question about a budget says; the task is queued by the caller."""
    budget = Budget.objects.filter(
        escalation_id=escalation.pk, project=escalation.project_id
    ).first()
    if budget is None:
        raise Invalid("/action", "The budget was removed. Answer 'retry' to queue the task.")
    grant(budget.pk, asking.read_grant(budget, words).number, stamp=stamp)


# ---- what was used before


def count_earlier(budget: Budget, *, now: datetime) -> None:
    since = None
    if budget.period == BudgetPeriod.DAY:
        budget.day = budget.find_today(now)
        since = datetime.combine(budget.day, time(), ZoneInfo(budget.zone))
    elif budget.scope == "project":
        return
    of = getattr(budget, f"{budget.scope}_id")
    for row in sql.run(EARLIER.format(of=OF[budget.scope]), of=of, since=since, now=now):
        usage = Usage(
            row["model"],
            row["input"],
            row["cached"],
            row["written"],
            row["output"],
            row["cost"] if row["has_cost"] else None,
        )
        if budget.unit == BudgetUnit.TOKENS:
            budget.used += usage.tokens
        elif (cost := find_cost(usage, project_id=budget.project_id, now=now)) is not None:
            budget.used += cost
        else:
            budget.unpriced += row["reports"]
            budget.unpriced_model = row["model"]


# ---- by what it is of


def scope_of_plan(plan: Plan) -> Scope:
    return Scope(plan.project_id, plan_id=plan.pk)


def scope_of_task(task: Task) -> Scope:
    return Scope(task.project_id, task_id=task.pk)
