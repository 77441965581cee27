"""Evaluate a condition of the ORM on a row that was read before."""

from collections.abc import Callable
from typing import Any

from django.core.exceptions import ObjectDoesNotExist
from django.db.models import F, Q

LOOKUPS: dict[str, Callable[[Any, Any], bool]] = {
    "exact": lambda value, wanted: bool(value == wanted),
    "in": lambda value, wanted: value in wanted,
    "isnull": lambda value, wanted: (value is None) is wanted,
    "lt": lambda value, wanted: bool(value < wanted),
}


def matches(row: Any, where: Q) -> bool:
    """Return whether `filter(where)` would find a row."""
    found = (
        matches(row, each) if isinstance(each, Q) else matches_lookup(row, *each)  # type: ignore[misc]
        for each in where.children
    )
    return (all(found) if where.connector == Q.AND else any(found)) is not where.negated


def matches_lookup(row: Any, path: str, wanted: Any) -> bool:
    names = path.split("__")
    lookup = names.pop() if names[-1] in LOOKUPS else "exact"
    if isinstance(wanted, F):
        wanted = read_value(row, [wanted.name])  # type: ignore[attr-defined]
    return LOOKUPS[lookup](read_value(row, names), wanted)


def read_value(row: Any, names: list[str]) -> Any:
    for name in names:
        try:
            row = getattr(row, name, None)
        except ObjectDoesNotExist:
            return None
    return row
