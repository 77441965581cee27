"""Split a query with groups into plain queries, each of which an index walk answers.

A page of the whole is among the pages of its branches. Without them, a rare alternative would make
PostgreSQL look for it in all rows.
"""

from collections.abc import Callable
from dataclasses import fields, replace
from itertools import product
from typing import Any, TypeVar

from django.db.models import QuerySet

from dashboard.lists.query_box import BoxQuery, Values

MOST = 8  # branches
APART = ("text", "problems", "groups")

B = TypeVar("B", bound=BoxQuery)
Rows = QuerySet[Any]


def list_branches(query: B) -> list[B]:
    """Return plain queries that together find what a query finds; none if it is too complex."""
    if not query.groups:
        return []
    found: list[B] = [replace(query, text="", groups=())]
    groups: Any = query.groups
    for group in groups:
        each: list[B] = []
        for alternative in group:
            inner = list_branches(alternative) if alternative.groups else [alternative]
            if not inner:
                return []
            each += inner
        joined = [merge(left, right) for left, right in product(found, each)]
        found = [both for both in joined if both is not None]
        if len(found) != len(joined) or len(found) > MOST:
            return []
    return found


def merge(one: B, other: B) -> B | None:
    """Return the query for rows that both find, or None if no plain query says that."""
    changes: dict[str, Any] = {}
    for field in fields(one):
        left, right = getattr(one, field.name), getattr(other, field.name)
        if field.name in APART or right == field.default:
            continue
        if left == field.default or (field.name in ("words", "stored")):
            changes[field.name] = right if left == field.default else (*left, *right)
        elif isinstance(left, Values) and not (left.wanted and right.wanted):
            changes[field.name] = Values(
                left.wanted or right.wanted, (*left.unwanted, *right.unwanted)
            )
        else:
            return None
    return replace(one, **changes)


def find_page(
    query: B, find: Callable[[B], Rows], every: Rows, slice_rows: Callable[[Rows], Rows]
) -> Rows:
    """Return rows among which a page of the query is; `every` are the list's rows."""
    branches = list_branches(query)
    if not branches:
        return find(query)
    first, *others = (slice_rows(find(each)).values("pk") for each in branches)
    return every.filter(pk__in=first.union(*others) if others else first)
