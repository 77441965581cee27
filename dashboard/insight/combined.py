"""Combine the rows of several projects' figures (pure)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LISTED = 8


@dataclass(frozen=True, slots=True)
class RowGroup:
    """The first rows of all projects, of one kind, and the number of rows not shown."""

    rows: list[Any]
    hidden: int
    more: int
    kind: str = ""
    label: str = ""


def combine_rows(
    figures: Sequence[Mapping[str, Any]],
    *,
    key: Callable[[Any], Any],
    kind: str = "",
    label: str = "",
) -> RowGroup:
    rows = sorted((row for each in figures for row in each["rows"]), key=key)
    hidden = sum(each["hidden"] for each in figures)
    more = sum(each["more"] for each in figures) + max(0, len(rows) - LISTED)
    return RowGroup(rows[:LISTED], hidden, more, kind, label)
