"""Prices of models: find the one that holds, compute the cost of a report, and change them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from ledger import journal
from ledger.database import sql
from ledger.errors import Invalid, NotFound
from ledger.journal import Kind, Stamp
from ledger.models import ModelPrice, Project
from ledger.models.budget import MODEL_LENGTH
from ledger.secrets.redaction import redacted, stripped
from retries.budgets.shipped_prices import SHIPPED, Price

MILLION = Decimal(1_000_000)
MOST_PRICE = Decimal(100_000)
MOST_PRICES = 1_000  # of a project
# "anthropic/claude-sonnet-4-5-20250929", "gpt-5-2025-08-07", "claude-opus-4-5[1m]"
PROVIDER = re.compile(r"^(?:[\w.-]+/)+")
# This reads at most MODEL_LENGTH characters.
SUFFIX = re.compile(r"(?:\[\w+\]|[-@](?:20\d{6}|20\d\d-\d\d-\d\d)|-latest)+$", re.ASCII)


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens that a report named; `input` includes those of the cache."""

    model: str = ""
    input: int = 0
    cached: int = 0
    written: int = 0
    output: int = 0
    cost_usd: Decimal | None = None

    @property
    def tokens(self) -> int:
        return self.input + self.output


def read_usage(stored: Mapping[str, Any]) -> Usage:
    """Read the usage as reports send it.

    >>> read_usage({"input_tokens": 100, "output_tokens": 20}).tokens
    120
    """
    cost = stored.get("cost_usd")
    return Usage(
        model=str(stored.get("model") or ""),
        input=int(stored.get("input_tokens") or 0),
        cached=int(stored.get("cached_tokens") or 0),
        written=int(stored.get("cache_write_tokens") or 0),
        output=int(stored.get("output_tokens") or 0),
        cost_usd=None if cost is None else Decimal(str(cost)),
    )


def base_name(model: str) -> str:
    """Return a model's name without its provider and date.

    >>> base_name("anthropic/claude-sonnet-4-5-20250929"), base_name("gpt-5-2025-08-07")
    ('claude-sonnet-4-5', 'gpt-5')
    """
    return SUFFIX.sub("", PROVIDER.sub("", model.strip().lower()))


def compute_cost(usage: Usage, price: Price) -> Decimal:
    """Return the cost in USD.

    >>> from retries.budgets.shipped_prices import SHIPPED
    >>> [(_, sonnet)] = SHIPPED["claude-sonnet-4-5"]
    >>> compute_cost(Usage(input=1_000_000, cached=600_000, output=100_000), sonnet)
    Decimal('2.880000')
    """
    # A report may count the cache beside the input: then nothing is left as plain input.
    plain = max(0, usage.input - usage.cached - usage.written)
    cost = (
        plain * price.input
        + usage.cached * price.cache_read
        + usage.written * price.cache_write
        + usage.output * price.output
    )
    return round(cost / MILLION, 6)


def find_cost(usage: Usage, *, project_id: UUID, now: datetime) -> Decimal | None:
    """Return a report's cost in USD: what it said, or else by the price; None without either."""
    if usage.cost_usd is not None:
        return round(usage.cost_usd, 6)
    if not usage.tokens:
        return Decimal(0)
    found = find_price(usage.model, project_id=project_id, on=now.astimezone(UTC).date())
    return compute_cost(usage, found) if found else None


# the exact name first, and of each name the newest price
FIND = """select p.input, p.output, p.cache_read, p.cache_write from ledger_modelprice p
where p.project_id = %(project)s and p.model = any(%(names)s::text[]) and p.starts_on <= %(day)s
order by array_position(%(names)s::text[], p.model::text), p.starts_on desc limit 1"""


def find_price(model: str, *, project_id: UUID, on: date) -> Price | None:
    """Return the price that holds on a day: the project's own, or else the one that is shipped."""
    if not model:
        return None
    names = [stripped(model).strip().lower(), base_name(model)]
    if own := sql.run(FIND, project=project_id, names=names, day=on):
        return Price(**own[0])
    for name in names:
        for starts_on, price in SHIPPED.get(name, ()):
            if starts_on <= on:
                return price
    return None


# ---- change them


@dataclass(frozen=True, slots=True)
class ListedPrice:
    """A price as the page lists it; a shipped one has no id."""

    model: str
    starts_on: date
    price: Price
    id: UUID | None = None
    set_by: str = ""
    is_replaced: bool = False  # a project's own price holds in its place

    @property
    def texts(self) -> list[str]:
        found = (self.price.input, self.price.output, self.price.cache_read, self.price.cache_write)
        return [f"{number.normalize():f}" for number in found]


def list_prices(project_id: UUID) -> list[ListedPrice]:
    own = [
        ListedPrice(
            row.model,
            row.starts_on,
            Price(row.input, row.output, row.cache_read, row.cache_write),
            row.pk,
            row.created_by_name,
        )
        for row in ModelPrice.objects.filter(project=project_id).order_by("model", "-starts_on")
    ]
    names = {each.model for each in own}
    shipped = [
        ListedPrice(model, starts_on, price, is_replaced=model in names)
        for model, prices in SHIPPED.items()
        for starts_on, price in prices
    ]
    return own + shipped


@sql.atomic
def set_price(
    project: Project, model: str, *, starts_on: date, price: Price, stamp: Stamp
) -> ModelPrice:
    """Set the price of a model from a day on; reports before it keep what they were counted as."""
    name = check_model(model)
    for field, value in (
        ("input", price.input),
        ("output", price.output),
        ("cache_read", price.cache_read),
        ("cache_write", price.cache_write),
    ):
        if not value.is_finite() or not 0 <= value <= MOST_PRICE:
            raise Invalid(
                f"/{field}", f"A price is from 0 to {MOST_PRICE:,} USD per million tokens."
            )
    if not date(2020, 1, 1) <= starts_on <= date(2100, 1, 1):
        raise Invalid("/starts_on", "Give the first day as a date from 2020 to 2100.")
    known = ModelPrice.objects.filter(project=project)
    if known.count() >= MOST_PRICES and not known.filter(model=name, starts_on=starts_on).exists():
        raise Invalid("/model", f"A project has at most {MOST_PRICES:,} prices. Remove one first.")
    values = {
        "input": round(price.input, 6),
        "output": round(price.output, 6),
        "cache_read": round(price.cache_read, 6),
        "cache_write": round(price.cache_write, 6),
        "created_by_name": stamp.actor.name,
        "updated_at": stamp.at,
    }
    row, _ = ModelPrice.objects.update_or_create(
        project=project,
        model=name,
        starts_on=starts_on,
        defaults=values,
        create_defaults=values | {"created_at": stamp.at},
    )
    record(Kind.PRICE_SET, row, stamp=stamp)
    return row


@sql.atomic
def remove_price(project_id: UUID, price_id: UUID, *, stamp: Stamp) -> ModelPrice:
    row = ModelPrice.objects.filter(project=project_id, pk=price_id).first()
    if row is None:
        raise NotFound(f"There is no price {price_id} here.")
    record(Kind.PRICE_REMOVED, row, stamp=stamp)
    row.delete()
    row.pk = price_id
    return row


def check_model(model: str) -> str:
    name = model.strip().lower()
    if not name or len(name) > MODEL_LENGTH or not name.isprintable():
        raise Invalid("/model", f"A model's name has 1 to {MODEL_LENGTH} printable characters.")
    if redacted(name) != name:
        raise Invalid("/model", "A model's name must not contain a secret.")
    return name


def record(kind: Kind, row: ModelPrice, *, stamp: Stamp) -> None:
    names = ("input", "output", "cache_read", "cache_write")
    data = {"name": row.model, "starts_on": row.starts_on.isoformat()}
    amounts = {name: float(getattr(row, name)) for name in names}
    journal.record_about("price", row, kind, stamp=stamp, data=data | amounts)
