"""Combine the rows of several projects' figures (pure)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dashboard.charts.times import draw_times

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


# ---- how long tasks wait and attempts run, by agent, type, and plan

KINDS = (("agent", "Agent"), ("type", "Type"), ("plan", "Plan"))


def list_time_groups(figures: Sequence[Mapping[str, Any]]) -> list[RowGroup]:
    return [list_kind(kind, label, figures) for kind, label in KINDS]


def list_kind(kind: str, label: str, figures: Sequence[Mapping[str, Any]]) -> RowGroup:
    own = [each[kind] for each in figures]
    found = combine_rows(own, key=lambda row: -row["n"], kind=kind, label=label)
    return replace(found, rows=draw_times(kind, found.rows))
