"""Budgets and models' prices over HTTP: everyone reads them, people change them."""

from datetime import UTC
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db.models import Q
from django.http import HttpResponse
from ninja import Query, Router

from ledger.api.auth import PrincipalAuth, PrincipalRequest, stamp_of
from ledger.api.parameters import find_plan, find_plan_id, parse_if_match
from ledger.api.reading import find_visible, list_response
from ledger.api.responses import json_response
from ledger.database import server_time
from ledger.errors import Invalid
from ledger.models import Budget, BudgetUnit, Project, Task
from ledger.schemas.shared import page_of
from retries.api.escalations import PersonAuth
from retries.budgets import asking, editing, prices
from retries.budgets.amounts import name_unit
from retries.budgets.editing import Scope, read_spec
from retries.budgets.prices import ListedPrice
from retries.budgets.shipped_prices import Price
from retries.schemas.settings import budgets as schemas
from retries.schemas.settings.budgets import budget_out, price_out

router = Router(tags=["budgets"])

OF_SCOPE = {
    "": Q(),
    "task": Q(task__isnull=False),
    "plan": Q(plan__isnull=False),
    "project": Q(task=None, plan=None),
}


@router.get("/budgets", auth=PrincipalAuth("tasks:read"), response=page_of(schemas.BudgetOut))
def budgets_list(request: PrincipalRequest, query: Query[schemas.BudgetQuery]) -> HttpResponse:
    """List budgets with what is used of them, newest first.

    An agent does not see those of others' tasks and plans.
    """
    rows = Budget.objects.visible_to(request.auth).filter(OF_SCOPE[query.scope])
    if query.plan:
        rows = rows.filter(plan=find_plan_id(request.auth, query.plan))
    if query.task:
        rows = rows.filter(task=query.task)
    now = server_time.now()
    return list_response(
        rows.select_related("plan"), query, lambda rows: (budget_out(row, now) for row in rows)
    )


@router.put("/budgets", auth=PersonAuth("escalations:resolve"), response=schemas.BudgetOut)
def budgets_set(request: PrincipalRequest, body: schemas.BudgetSetIn) -> HttpResponse:
    """Set a budget of a task, of a plan, or of the project.

    One of the same period and unit is replaced. What was used before it was set counts, but for a
    project's budget in total.
    """
    scope = find_scope(request, body)
    budget = editing.set_budget(scope, read_spec(body), stamp=stamp_of(request))
    return budget_response(budget)


def find_scope(request: PrincipalRequest, body: schemas.BudgetSetIn) -> Scope:
    if body.plan:
        return editing.scope_of_plan(find_plan(request.auth, body.plan))
    if body.task:
        task = find_visible(Task.objects.visible_to(request.auth), "task", body.task)
        return editing.scope_of_task(task)
    return Scope(request.auth.project_id)


@router.get("/budgets/{id}", auth=PrincipalAuth("tasks:read"), response=schemas.BudgetOut)
def budgets_get(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Get a budget with what is used of it."""
    return budget_response(find_budget(request, id))


@router.patch("/budgets/{id}", auth=PersonAuth("escalations:resolve"), response=schemas.BudgetOut)
def budgets_update(request: PrincipalRequest, id: UUID, body: schemas.BudgetPatch) -> HttpResponse:
    """Change a budget's limit, its zone, or what happens when it is used up.

    A higher limit lets the tasks that wait for it go on. The `If-Match` header must contain the
    ETag of the version you read.
    """
    budget = find_budget(request, id)
    changed = editing.change_budget(
        budget.pk,
        amount=read_limit(budget, body),
        at_limit=body.at_limit,
        zone=body.zone,
        version=parse_if_match(request),
        stamp=stamp_of(request),
    )
    return budget_response(changed)


def read_limit(budget: Budget, body: schemas.BudgetPatch) -> Decimal | None:
    other = "usd" if budget.unit == BudgetUnit.TOKENS else "tokens"
    if getattr(body, other) is not None:
        unit = name_unit(budget.unit)
        raise Invalid(f"/{other}", f"The budget is in {unit}: set '{budget.unit}'.")
    given = getattr(body, budget.unit)
    return None if given is None else Decimal(str(given))


@router.post(
    "/budgets/{id}/grant", auth=PersonAuth("escalations:resolve"), response=schemas.BudgetOut
)
def budgets_grant(request: PrincipalRequest, id: UUID, body: schemas.GrantIn) -> HttpResponse:
    """Grant more of a budget: to one per day for today, to one in total for all time.

    The answer `grant: <amount>` to the question about it does the same.
    """
    budget = find_budget(request, id)
    number = asking.read_grant(budget, body.amount, pointer="/amount").number
    return budget_response(editing.grant_and_free(budget.pk, number, stamp=stamp_of(request)))


@router.delete("/budgets/{id}", auth=PersonAuth("escalations:resolve"), response=schemas.RemovedOut)
def budgets_delete(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Remove a budget: no task waits for it any more."""
    editing.remove_budget(find_budget(request, id).pk, stamp=stamp_of(request))
    return json_response({"removed": str(id)})


def find_budget(request: PrincipalRequest, id: UUID) -> Budget:
    rows = Budget.objects.visible_to(request.auth).select_related("plan")
    return find_visible(rows, "budget", id)


def budget_response(budget: Budget) -> HttpResponse:
    return json_response(budget_out(budget, server_time.now()), version=budget.version)


# ---- prices


@router.get("/prices", auth=PrincipalAuth("tasks:read"), response=schemas.PricesOut)
def prices_list(request: PrincipalRequest) -> HttpResponse:
    """List the prices of models: the project's own, and those that Tenfour ships.

    A cost that a report names comes before any price. Reports of a model without a price count
    their tokens alone.
    """
    found = prices.list_prices(request.auth.project_id)
    return json_response({"data": [price_out(each) for each in found]})


@router.put("/prices", auth=PersonAuth("escalations:resolve"), response=schemas.PriceOut)
def prices_set(request: PrincipalRequest, body: schemas.PriceIn) -> HttpResponse:
    """Set the price of a model from a day on; what was counted before stays as it is."""
    stamp = stamp_of(request)
    price = Price(*(read_price(body, name) for name in ("input", "output", *CACHES)))
    row = prices.set_price(
        Project.objects.get(pk=request.auth.project_id),
        body.model,
        starts_on=body.starts_on or stamp.at.astimezone(UTC).date(),
        price=price,
        stamp=stamp,
    )
    return json_response(
        price_out(ListedPrice(row.model, row.starts_on, price, row.pk, row.created_by_name))
    )


CACHES = ("cache_read", "cache_write")


def read_price(body: schemas.PriceIn, name: str) -> Decimal:
    given: Any = getattr(body, name)
    return Decimal(str(body.input if given is None else given))


@router.delete("/prices/{id}", auth=PersonAuth("escalations:resolve"), response=schemas.RemovedOut)
def prices_delete(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Remove one of the project's own prices: the one before it, or the shipped one, holds."""
    prices.remove_price(request.auth.project_id, id, stamp=stamp_of(request))
    return json_response({"removed": str(id)})
