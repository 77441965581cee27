"""Make, keep, score, and read the forecasts of plans that are under way."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import groupby
from operator import itemgetter
from typing import Any, Generic, TypeVar
from uuid import UUID

from ledger.database import sql
from ledger.database.sql import Row
from ledger.models import Plan, PlanState, Project
from ledger.moves import FINAL_STATES
from retries.insight.forecasts.cases import LEAST_CASES
from retries.insight.forecasts.reading import Surroundings, read_surroundings
from retries.insight.forecasts.simulation import Outlook, Range, forecast

T = TypeVar("T")
U = TypeVar("U")

# of one run of the clock
MOST_PLANS, MOST_S = 200, 5.0
# the plans that are looked at for changes, and the open tasks of a project that are read
MOST_CANDIDATES, MOST_OPEN = 1_000, 20_000
# a plan of which no task has changed is forecast again after this time
REST = timedelta(minutes=10)
# the plans that must have ended before it is shown how many ended inside their intervals
LEAST_PLANS = 20


class Reason(StrEnum):
    """Why a plan has no forecast."""

    FEW_CASES = "few_cases"
    FEW_ANSWERS = "few_answers"
    AGENT_PAUSED = "agent_paused"
    # a task waits for one that no agent will do: not imported yet, failed, or of a paused plan
    STUCK = "stuck"
    # the clock has not come to it yet
    NOT_MADE = "not_made"
    NOT_UNDER_WAY = "not_under_way"


# the same in words, for pages, the API, and the command line
SENTENCES = {
    Reason.FEW_CASES: f"There are few data: it is made from {LEAST_CASES} attempts on.",
    Reason.FEW_ANSWERS: "A person is asked, and few answers of the past are known.",
    Reason.AGENT_PAUSED: "An agent with tasks of the plan is paused.",
    Reason.STUCK: "A task waits for one that no agent will do.",
    Reason.NOT_MADE: "The clock makes it in a minute.",
    Reason.NOT_UNDER_WAY: "The plan is paused or over.",
}


# The plans whose forecasts are the oldest, with their tasks and what they have spent. The project
# whose oldest forecast is the oldest comes first, so that each has its turn.
DUE = f"""with oldest as materialized (
    select p.id, p.project_id, p.run, f.made_at, f.reason from ledger_plan p
    left join retries_planforecast f on f.plan_id = p.id and f.run = p.run and not f.is_kept
    where p.completed_at is null and p.aborted_at is null and p.paused_at is null
        and (%(of)s::uuid is null or p.project_id = %(of)s)
        and exists (select from ledger_task t where t.plan_id = p.id
            and t.state not in ({FINAL_STATES}) and t.replaced_by_id is null)
    order by f.made_at nulls first, p.id limit {MOST_CANDIDATES}
), due as materialized (
    select f.* from oldest f
    where f.made_at is null or f.made_at < %(before)s or exists (
            select from ledger_task t where t.plan_id = f.id and t.updated_at > f.made_at)
        or f.reason <> '{Reason.FEW_CASES}' and (f.reason = '{Reason.AGENT_PAUSED}') <> exists (
            select from ledger_task t join ledger_agent a on a.id = t.agent_id
            where t.plan_id = f.id and t.state not in ({FINAL_STATES}) and a.paused)
    order by f.made_at nulls first, f.id limit {MOST_PLANS}
)
select d.*, n.total, n.over, u.usd, u.tokens from due d cross join lateral (
    select count(*) as total, count(*) filter (where t.state in ({FINAL_STATES})) as over
    from ledger_task t where t.plan_id = d.id and t.replaced_by_id is null
) n cross join lateral (
    select coalesce(sum((a.usage ->> 'cost_usd')::float8), 0) as usd,
        coalesce(sum(coalesce((a.usage ->> 'input_tokens')::float8, 0)
            + coalesce((a.usage ->> 'output_tokens')::float8, 0)), 0) as tokens
    from ledger_task t join ledger_attempt a on a.task_id = t.id
    where t.plan_id = d.id and t.replaced_by_id is null
) u
order by min(coalesce(d.made_at, '-infinity')) over (partition by d.project_id), d.project_id,
    d.made_at nulls first, d.id"""

COLUMNS = """plan_id, project_id, run, made_at, reason, cases, low_at, median_at, high_at, spent,
    low_cost, median_cost, high_cost, cost_unit"""
# The kept forecast is the first that can be made of a plan with a quarter of its tasks over.
STORE = f"""with new as (
    select %(plan)s::uuid as plan_id, %(project)s::uuid as project_id, %(run)s::int as run,
        %(now)s::timestamptz as made_at, %(reason)s::text as reason, %(cases)s::int as cases,
        %(low_at)s::timestamptz as low_at, %(median_at)s::timestamptz as median_at,
        %(high_at)s::timestamptz as high_at, %(spent)s::float8 as spent,
        %(low_cost)s::float8 as low_cost, %(median_cost)s::float8 as median_cost,
        %(high_cost)s::float8 as high_cost, %(cost_unit)s::text as cost_unit
), kept as (
    insert into retries_planforecast ({COLUMNS}, is_kept) select {COLUMNS}, true from new
    where %(keeps)s on conflict do nothing
)
insert into retries_planforecast as f ({COLUMNS}, is_kept) select {COLUMNS}, false from new
on conflict (plan_id, run, is_kept) do update set made_at = excluded.made_at,
    reason = excluded.reason, cases = excluded.cases, low_at = excluded.low_at,
    median_at = excluded.median_at, high_at = excluded.high_at, spent = excluded.spent,
    low_cost = excluded.low_cost, median_cost = excluded.median_cost,
    high_cost = excluded.high_cost, cost_unit = excluded.cost_unit"""

# A pause and an abort are decisions that no forecast knows of, and so is a restart: what was
# forecast before is not compared with the end, unless the plan was too late for it already.
SETTLE = """with ended as (
    update retries_planforecast f set ended_at = p.completed_at from ledger_plan p
    where f.is_kept and f.ended_at is null and p.id = f.plan_id and p.run = f.run
        and p.completed_at is not null and p.aborted_at is null
        and (%(of)s::uuid is null or f.project_id = %(of)s)
    returning f.plan_id
), dropped as (
    delete from retries_planforecast f using ledger_plan p
    where p.id = f.plan_id and f.ended_at is null
        and (%(of)s::uuid is null or f.project_id = %(of)s)
        and (p.run <> f.run or p.aborted_at is not null
            or p.paused_at is not null and p.completed_at is null
            or p.completed_at is not null and not f.is_kept)
        and not (f.is_kept and f.high_at < %(now)s)
)
select plan_id from ended"""

# One value beside the columns of `ledger_plan`, so that a plan's page needs no statement for it. A
# plan that goes on after its interval is outside it already.
OF_PLAN = """(select to_jsonb(x) from (
    select f.made_at, f.reason, f.cases, f.low_at, f.median_at, f.high_at, f.spent,
        f.low_cost, f.median_cost, f.high_cost, f.cost_unit, c.plans, c.inside
    from (
        select count(*) as plans,
            count(*) filter (where k.ended_at between k.low_at and k.high_at) as inside
        from retries_planforecast k
        where k.project_id = ledger_plan.project_id and k.is_kept
            and (k.ended_at is not null or k.high_at < now())
    ) c left join retries_planforecast f
        on f.plan_id = ledger_plan.id and f.run = ledger_plan.run and not f.is_kept
) x)"""


def make_forecasts(*, now: datetime, project: Project | None = None) -> dict[str, Any]:
    of = project.pk if project else None
    ended = sql.run(SETTLE, of=of, now=now)
    due = sql.run(DUE, of=of, before=now - REST)
    started, made, skipped = time.monotonic(), 0, 0
    for id, group in groupby(due, key=itemgetter("project_id")):
        # the others are the oldest of the next run
        if time.monotonic() - started > MOST_S:
            break
        plans = choose_plans(group)
        found = read_surroundings(id, [plan["id"] for plan in plans], now=now)
        for plan in plans:
            if time.monotonic() - started > MOST_S:
                break
            # its last task may have ended since, or it was paused
            if needed := found.find_needed(plan["id"]):
                store(plan, needed, found)
                made += 1
            else:
                skipped += 1
    return {"made": made, "left": len(due) - made - skipped, "ended": len(ended)}


def choose_plans(plans: Iterable[Row]) -> list[Row]:
    """Return the first plans, up to so many open tasks, and at least one."""
    found: list[Row] = []
    count = 0
    for plan in plans:
        count += plan["total"] - plan["over"]
        if found and count > MOST_OPEN:
            break
        found.append(plan)
    return found


def store(plan: Row, needed: dict[UUID, Row], found: Surroundings) -> None:
    reason, outlook = look_ahead(plan["id"], plan["run"], needed, found)
    spent = plan[found.unit]
    seconds, cost = outlook.seconds, outlook.cost
    times = dict.fromkeys(("low_at", "median_at", "high_at")) | (
        {f"{name}_at": found.now + timedelta(seconds=s) for name, s in name_bounds(seconds)}
        if seconds
        else {}
    )
    costs = dict.fromkeys(("low_cost", "median_cost", "high_cost")) | (
        {f"{name}_cost": spent + s for name, s in name_bounds(cost)} if cost else {}
    )
    sql.run(
        STORE,
        plan=plan["id"],
        project=plan["project_id"],
        run=plan["run"],
        now=found.now,
        reason=str(reason or ""),
        cases=outlook.cases,
        spent=spent,
        cost_unit=found.unit,
        keeps=seconds is not None and 4 * plan["over"] >= plan["total"],
        **times,
        **costs,
    )


def name_bounds(of: Range) -> list[tuple[str, float]]:
    return [("low", of.low), ("median", of.median), ("high", of.high)]


def look_ahead(
    plan: UUID, run: int, needed: dict[UUID, Row], found: Surroundings
) -> tuple[Reason | None, Outlook]:
    none = Outlook(None, None, found.history.size)
    if found.history.size < LEAST_CASES:
        return Reason.FEW_CASES, none
    if found.has_paused_agent(row for row in needed.values() if row["plan_id"] == plan):
        return Reason.AGENT_PAUSED, none
    if found.is_stuck(needed):
        return Reason.STUCK, none
    tasks, slots = found.build(plan, needed)
    outlook = forecast(tasks, slots, found.history, plan=plan, seed=f"{plan}:{run}")
    return Reason.FEW_ANSWERS if outlook.is_missing_answers else None, outlook


@dataclass(frozen=True, slots=True)
class StoredRange(Generic[T]):
    low: T
    median: T
    high: T

    def convert(self, to: Callable[[T], U]) -> "StoredRange[U]":
        return StoredRange(to(self.low), to(self.median), to(self.high))


@dataclass(frozen=True, slots=True)
class Calibration:
    """Of the project's plans whose forecasts were kept, those that ended inside their intervals."""

    plans: int
    inside: int

    @property
    def share(self) -> float | None:
        return self.inside / self.plans if self.plans >= LEAST_PLANS else None


@dataclass(frozen=True, slots=True)
class StoredForecast:
    """A plan's newest forecast; `reason` says why there is no interval.

    `cost` is that of the whole run in `cost_unit`, usd or tokens, and `spent` the part so far.
    """

    reason: str | None
    made_at: datetime | None = None
    cases: int = 0
    ends_at: StoredRange[datetime] | None = None
    cost: StoredRange[float] | None = None
    cost_unit: str = "usd"
    spent: float = 0.0
    calibration: Calibration = Calibration(0, 0)

    @property
    def sentence(self) -> str | None:
        return SENTENCES[Reason(self.reason)] if self.reason else None


def read_forecast(plan: Plan) -> StoredForecast:
    [row] = sql.run(f"select {OF_PLAN} as found from ledger_plan where id = %(plan)s", plan=plan.pk)
    return describe(plan, row["found"])


def describe(plan: Plan, found: Mapping[str, Any]) -> StoredForecast:
    if plan.state != PlanState.ACTIVE:
        return StoredForecast(Reason.NOT_UNDER_WAY)
    calibration = Calibration(found["plans"], found["inside"])
    if found["made_at"] is None:
        return StoredForecast(Reason.NOT_MADE, calibration=calibration)
    ends_at, cost = read_range(found, "at"), read_range(found, "cost")
    return StoredForecast(
        found["reason"] or None,
        datetime.fromisoformat(found["made_at"]),
        found["cases"],
        ends_at.convert(datetime.fromisoformat) if ends_at else None,
        cost,
        found["cost_unit"],
        found["spent"],
        calibration,
    )


def read_range(found: Mapping[str, Any], kind: str) -> StoredRange[Any] | None:
    low, median, high = (found[f"{name}_{kind}"] for name in ("low", "median", "high"))
    return None if low is None else StoredRange(low, median, high)
