"""Calls about budgets and models' prices; each function turns arguments into a Call."""

from __future__ import annotations

from datetime import date
from typing import Any, Literal

from tenfour.api.calls import PAGE, given, page_of, part
from tenfour.http.core import Call
from tenfour.http.values import Page
from tenfour.record_models import Budget, Price

PATH, PRICES = "/v1/budgets", "/v1/prices"
Period = Literal["day", "total"]
AtLimit = Literal["ask", "stop"]


def budgets(
    *,
    plan: str | None = None,
    task: str | None = None,
    scope: Literal["task", "plan", "project"] | None = None,
) -> Call[Page[Budget]]:
    """List budgets with what is used of them, newest first."""
    params = given({"plan": plan, "task": task, "scope": scope, "limit": str(PAGE)})
    return Call("GET", PATH, page_of(Budget.read), params=params)


def get(id: str) -> Call[Budget]:
    """Get a budget with what is used of it."""
    return Call("GET", _path(id), Budget.read)


def set(
    *,
    tokens: int | None = None,
    usd: float | None = None,
    plan: str | None = None,
    task: str | None = None,
    period: Period | None = None,
    at_limit: AtLimit | None = None,
    zone: str | None = None,
) -> Call[Budget]:
    """Set a budget of a plan or a task, or without either of the project; needs a person's token.

    The limit is either `tokens` or `usd`. One of the same period and unit is replaced.
    """
    body = {
        "tokens": tokens,
        "usd": usd,
        "plan": plan,
        "task": task,
        "period": period,
        "at_limit": at_limit,
        "zone": zone,
    }
    return Call("PUT", PATH, Budget.read, given(body))


def change(
    id: str,
    *,
    version: int,
    tokens: int | None = None,
    usd: float | None = None,
    at_limit: AtLimit | None = None,
    zone: str | None = None,
) -> Call[Budget]:
    """Change a budget; refused if it has changed since `version` was read."""
    changes = given({"tokens": tokens, "usd": usd, "at_limit": at_limit, "zone": zone})
    headers = {"If-Match": f'"v{version}"'}
    return Call("PATCH", _path(id), Budget.read, changes, headers=headers)


def grant(id: str, amount: str) -> Call[Budget]:
    """Grant more, such as "500000 tokens" or "5 USD"; of a budget per day, for today."""
    return Call("POST", f"{_path(id)}/grant", Budget.read, {"amount": amount})


def remove(id: str) -> Call[str]:
    """Remove a budget: no task waits for it any more; returns its id."""
    return Call("DELETE", _path(id), _removed)


def prices() -> Call[tuple[Price, ...]]:
    """List the prices of models: the project's own, and those that Tenfour ships."""
    return Call("GET", PRICES, _prices)


def set_price(
    model: str,
    *,
    input: float,
    output: float,
    cache_read: float | None = None,
    cache_write: float | None = None,
    starts_on: date | str | None = None,
) -> Call[Price]:
    """Set the price of a model in USD per million tokens, from a day on; by default from today."""
    day = starts_on.isoformat() if isinstance(starts_on, date) else starts_on
    body = {
        "model": model,
        "input": input,
        "output": output,
        "cache_read": cache_read,
        "cache_write": cache_write,
        "starts_on": day,
    }
    return Call("PUT", PRICES, Price.read, given(body))


def remove_price(id: str) -> Call[str]:
    """Remove one of the project's own prices; returns its id."""
    return Call("DELETE", f"{PRICES}/{part(id)}", _removed)


def _path(id: str) -> str:
    return f"{PATH}/{part(id)}"


def _removed(answer: Any) -> str:
    return str(answer["removed"])


def _prices(answer: Any) -> tuple[Price, ...]:
    return tuple(Price.read(each) for each in answer["data"])
