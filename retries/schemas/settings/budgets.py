"""Schemas of budgets and of models' prices."""

from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

from pydantic import Field, StrictInt, model_validator

from ledger.models import Budget
from ledger.models.budget import MODEL_LENGTH
from ledger.schemas.budgets import MOST_TOKENS, MOST_USD, BudgetFields
from ledger.schemas.shapes import ID, Shape, field
from ledger.schemas.shared import PLAN_ID_OR_REF, In, ListQuery
from retries.budgets.prices import ListedPrice


class BudgetQuery(ListQuery):
    plan: str = Field("", description=PLAN_ID_OR_REF)
    task: UUID | None = Field(None, description="a task's id")
    scope: Literal["", "task", "plan", "project"] = Field(
        "", description="only budgets of tasks, of plans, or of the project"
    )


class BudgetSetIn(BudgetFields, example={"plan": "03-01", "tokens": 2_000_000, "period": "day"}):
    plan: str = Field("", description=f"{PLAN_ID_OR_REF}; without a task and a plan, the project's")
    task: UUID | None = Field(None, description="a task's id")

    @model_validator(mode="after")
    def check_scope(self) -> "BudgetSetIn":
        if self.plan and self.task:
            raise ValueError("Set either 'plan' or 'task', or neither for the project.")
        return self


class BudgetPatch(In, example={"tokens": 3_000_000}):
    tokens: StrictInt | None = Field(
        None, ge=1, le=MOST_TOKENS, description="the new limit in tokens"
    )
    usd: float | None = Field(
        None, ge=0.01, le=MOST_USD, allow_inf_nan=False, description="the new limit in US dollars"
    )
    at_limit: Literal["ask", "stop"] | None = Field(
        None, description="what happens when it is used up"
    )
    zone: str | None = Field(None, max_length=64, description="the time zone of its day")


class GrantIn(In, example={"amount": "500000 tokens"}):
    amount: str = Field(
        min_length=1,
        max_length=64,
        description="how much more, such as '500000 tokens' or '5 USD'; for a budget per day it "
        "holds today",
    )


class BudgetOut(Shape):
    id: UUID = field("the budget's id")
    scope: str = field("task, plan, or project", "plan")
    plan: UUID | None = field("the plan's id, or null", ID, source="plan_id")
    plan_ref: str | None = field("the plan's ref, or null", "03-01", source="plan.ref")
    task: UUID | None = field("the task's id, or null", source="task_id")
    period: str = field("day or total", "day")
    zone: str = field("the time zone of its day", "UTC")
    unit: str = field("tokens or usd", "tokens")
    limit: float = field("the limit, with what was granted", 2_000_000, given=True)
    granted: float = field("how much of the limit answers have granted", 0, given=True)
    used: float = field("how much is used, of this day or of all time", 1_640_000, given=True)
    share: float = field("the share of the limit that is used", 0.82, given=True)
    at_limit: str = field("when it is used up: ask a person, or stop", "ask")
    used_up: bool = field("true if its tasks wait", given=True)
    until: datetime | None = field("when its day ends; null in total", given=True)
    unpriced: int = field("reports whose tokens have no known price, and count for no dollars")
    unpriced_model: str = field("the last model without a price; empty without one")
    escalation: UUID | None = field("the last question about it, or null", source="escalation_id")
    created_by: str = field("who set it", "ada", source="created_by_name")
    created_at: datetime = field("when it was set")
    updated_at: datetime = field("when it was last changed by a person or producer")
    version: int = field('changes with every change; the ETag is "v<version>"', 1)


def budget_out(budget: Budget, now: datetime) -> dict[str, Any]:
    is_now = budget.is_of_now(now)
    used, limit = budget.used_now(now), budget.limit_now(now)
    return BudgetOut.write(
        budget,
        limit=as_float(limit),
        granted=as_float(budget.granted) if is_now else 0.0,
        used=as_float(used),
        share=round(float(used / limit), 4),
        used_up=budget.is_used_up(now),
        until=budget.ends_at(now),
    )


def as_float(number: Decimal) -> float:
    return float(number)


class PriceIn(
    In,
    example={
        "model": "claude-sonnet-4-5",
        "starts_on": "2026-12-01",
        "input": 3,
        "output": 15,
        "cache_read": 0.3,
        "cache_write": 3.75,
    },
):
    model: str = Field(
        min_length=1,
        max_length=MODEL_LENGTH,
        description="the model's name as reports send it; a name without its date is for all dates",
    )
    starts_on: date | None = Field(
        None, description="the first day, in UTC, on which it holds; today if missing"
    )
    input: float = Field(ge=0, le=100_000, allow_inf_nan=False, description="per million tokens")
    output: float = Field(ge=0, le=100_000, allow_inf_nan=False, description="per million tokens")
    cache_read: float | None = Field(
        None,
        ge=0,
        le=100_000,
        allow_inf_nan=False,
        description="per million tokens read from a cache; that of the input if missing",
    )
    cache_write: float | None = Field(
        None,
        ge=0,
        le=100_000,
        allow_inf_nan=False,
        description="per million tokens written to a cache; that of the input if missing",
    )


class PriceOut(Shape):
    id: UUID | None = field("the price's id; null if Tenfour ships it")
    model: str = field("the model's name", "claude-sonnet-4-5")
    starts_on: date = field(
        "the first day on which it holds",
        "2025-09-29",
        source=lambda row: row.starts_on.isoformat(),
    )
    input: float = field("USD per million tokens", 3.0, source=lambda row: float(row.price.input))
    output: float = field(
        "USD per million tokens", 15.0, source=lambda row: float(row.price.output)
    )
    cache_read: float = field(
        "USD per million tokens read from a cache",
        0.3,
        source=lambda row: float(row.price.cache_read),
    )
    cache_write: float = field(
        "USD per million tokens written to a cache",
        3.75,
        source=lambda row: float(row.price.cache_write),
    )
    set_by: str | None = field("who set it; null if Tenfour ships it", empty_is_null=True)


class PricesOut(Shape):
    data: list[PriceOut] = field("the project's own prices, and then those that Tenfour ships")


class RemovedOut(Shape):
    removed: UUID = field("the id of what was removed")


def price_out(price: ListedPrice) -> dict[str, Any]:
    return PriceOut.write(price)
