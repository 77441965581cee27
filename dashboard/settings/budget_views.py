"""The page of a project's budgets and of the prices of models."""

from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.frame.access import may_open
from dashboard.frame.rendering import (
    SETTINGS,
    HtmxRequest,
    Visit,
    begin_visit,
    compose_page,
    respond,
)
from dashboard.frame.toasts import tell_result
from dashboard.lists.query_box import as_id
from ledger.errors import Invalid, Refusal
from ledger.journal import stamp_of
from ledger.models import AtLimit, Budget, BudgetPeriod, Plan, Project, Task
from retries.budgets import asking, editing, prices, reading
from retries.budgets.amounts import parse_amount
from retries.budgets.editing import BudgetSpec, Scope
from retries.budgets.reading import MOST_LISTED
from retries.budgets.shipped_prices import Price

VERBS = ("change", "grant", "remove")
PRICES = ("input", "output", "cache_read", "cache_write")
FIELDS = ("scope", "name", "amount", "period", "at_limit", "zone")
NAME_LENGTH = 129


def index(request: HtmxRequest) -> HttpResponse:
    return show(begin_visit(request, current="settings"))


def show(
    visit: Visit, *, typed: dict[str, str] | None = None, error: str = "", status: int = 200
) -> HttpResponse:
    project, now = visit.scope.only, visit.now
    budgets = reading.list_of_project(project, now=now) if project else []
    listed = prices.list_prices(project.pk) if project else []
    user = visit.request.user
    page = compose_page(
        title="Budgets",
        crumbs=(SETTINGS,),
        status_code=status,
        project=project,
        projects=visit.scope.projects,
        budgets=budgets,
        has_more=len(budgets) >= MOST_LISTED,
        own_prices=[each for each in listed if each.id],
        shipped_prices=[each for each in listed if not each.id],
        # budgets in dollars that left out reports without a price
        unpriced=[line for line in budgets if line.budget.unpriced],
        typed=typed or {},
        error=error,
        may_change=may_open(user, "budget_save"),
        may_price=may_open(user, "price_save"),
        today=now.astimezone(UTC).date(),
        periods=[(str(value), str(label)) for value, label in BudgetPeriod.choices],
        at_limits=[(str(value), str(label)) for value, label in AtLimit.choices],
    )
    return respond(visit, "settings/budgets.html", "settings/_budgets.html", page)


def require_project(visit: Visit) -> Project:
    project = visit.scope.only
    if project is None:
        raise Http404("Choose a project first.")
    return project


def save(request: HtmxRequest) -> HttpResponse:
    visit = begin_visit(request, current="settings")
    project = require_project(visit)
    typed = {name: request.POST.get(name, "").strip() for name in FIELDS}
    try:
        limit = parse_amount(typed["amount"])
        budget = editing.set_budget(
            find_scope(project, typed["scope"], typed["name"]),
            BudgetSpec(
                unit=limit.unit,
                amount=limit.number,
                period=typed["period"] or BudgetPeriod.TOTAL.value,
                at_limit=typed["at_limit"] or AtLimit.ASK.value,
                zone=typed["zone"],
            ),
            stamp=stamp_of(request, visit.now),
        )
    except Refusal as refusal:
        return show(visit, typed=typed, error=refusal.detail, status=422)
    messages.success(request, f"Set a budget of {asking.name_scope(budget)}.")
    return go_back(visit)


def find_scope(project: Project, kind: str, name: str) -> Scope:
    """Return what a budget is of, by its kind and name; raise Invalid."""
    named = name[:NAME_LENGTH].replace("\0", "")
    match kind:
        case "plan":
            plan = Plan.objects.filter(project=project, ref=named).first()
            if plan is None:
                raise Invalid("/name", f"There is no plan “{named}” in {project.name}.")
            return editing.scope_of_plan(plan)
        case "task":
            task = find_task(project, named)
            if task is None:
                raise Invalid(
                    "/name", "There is no task with this id or ref. Copy it from its page."
                )
            return editing.scope_of_task(task)
        case "project":
            return Scope(project.pk)
    raise Invalid("/scope", "Choose the project, a plan or a task.")


def find_task(project: Project, name: str) -> Task | None:
    rows = Task.objects.filter(project=project)
    if (id := as_id(name)) is not None:
        return rows.filter(pk=id).first()
    return rows.filter(ref=name, replaced_by=None).order_by("-run").first() if name else None


def act(request: HtmxRequest, budget_id: UUID, verb: str) -> HttpResponse:
    visit = begin_visit(request, current="settings")
    budget = reading.find_of_project(require_project(visit).pk, budget_id)
    if budget is None or verb not in VERBS:
        raise Http404(f"There is no budget {budget_id} here.")
    typed = request.POST.get("amount", "")
    tell_result(request, lambda: apply(verb, budget, request, visit.now), typed=typed)
    return go_back(visit)


def apply(verb: str, budget: Budget, request: HtmxRequest, now: datetime) -> str:
    name, stamp = asking.name_scope(budget), stamp_of(request, now)
    if verb == "remove":
        editing.remove_budget(budget.pk, stamp=stamp)
        return f"Removed a budget of {name}."
    given = asking.read_grant(budget, request.POST.get("amount", ""), pointer="/amount")
    if verb == "grant":
        editing.grant_and_free(budget.pk, given.number, stamp=stamp)
        return f"Granted more to {name}."
    at_limit = request.POST.get("at_limit") or None
    editing.change_budget(budget.pk, amount=given.number, at_limit=at_limit, stamp=stamp)
    return f"Changed a budget of {name}."


def go_back(visit: Visit) -> HttpResponse:
    return redirect(reverse("dashboard:budgets") + visit.scope.query)


# ---- prices


def save_price(request: HtmxRequest) -> HttpResponse:
    visit = begin_visit(request, current="settings")
    project = require_project(visit)
    model = request.POST.get("model", "")

    def set_price() -> str:
        row = prices.set_price(
            project,
            model,
            starts_on=read_date(request.POST.get("starts_on", ""), visit.now),
            price=Price(*(read_price(request, name) for name in PRICES)),
            stamp=stamp_of(request, visit.now),
        )
        return f"Set the price of {row.model} from {row.starts_on} on."

    tell_result(request, set_price, typed=model)
    return go_back(visit)


def read_date(text: str, now: datetime) -> date:
    try:
        return date.fromisoformat(text) if text.strip() else now.astimezone(UTC).date()
    except ValueError:
        raise Invalid("/starts_on", "Give the first day as a date, such as 2026-12-01.") from None


def read_price(request: HtmxRequest, name: str) -> Decimal:
    # Without a price of its own, the cache has that of the input.
    text = request.POST.get(name, "").strip() or request.POST.get("input", "").strip()
    try:
        return Decimal(text)
    except InvalidOperation:
        words = name.replace("_", " ")
        raise Invalid(f"/{name}", f"Give the price of {words} as a number such as 3.75.") from None


def remove_price(request: HtmxRequest, price_id: UUID) -> HttpResponse:
    visit = begin_visit(request, current="settings")
    row = prices.remove_price(
        require_project(visit).pk, price_id, stamp=stamp_of(request, visit.now)
    )
    messages.success(request, f"Removed the price of {row.model} from {row.starts_on} on.")
    return go_back(visit)
