"""The conditions of a declared list, built from the values of a key."""

from collections.abc import Callable
from typing import Any

from django.db.models import Q

from dashboard.lists.shared_queries import (
    bound_ids,
    match_age,
    match_any,
    match_period,
    match_values,
)

Condition = Callable[[Any], Q]


def equals(column: str) -> Condition:
    return lambda values: match_values(values, column)


def any_of(meaning: Callable[[str], Q]) -> Condition:
    return lambda values: match_any(values, meaning)


def older_than(column: str) -> Condition:
    return lambda age: match_age(age, column)


def within(column: str, *, is_creation: bool = False) -> Condition:
    """Return the condition that a column's time lies in a period."""
    # An id begins with its row's creation time, and ids have an index.
    if is_creation:
        return lambda period: match_period(period, column) & bound_ids(period)
    return lambda period: match_period(period, column)
