"""Combine how long tasks wait and attempts run by agent, type, and plan (pure)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dashboard.charts.times import draw_times
from dashboard.insight.combined import RowGroup, combine_rows

KINDS = (("agent", "Agent"), ("type", "Type"), ("plan", "Plan"))


def list_time_groups(figures: Sequence[Mapping[str, Any]]) -> list[RowGroup]:
    return [list_kind(kind, label, figures) for kind, label in KINDS]


def list_kind(kind: str, label: str, figures: Sequence[Mapping[str, Any]]) -> RowGroup:
    own = [each[kind] for each in figures]
    found = combine_rows(own, key=lambda row: -row["n"], kind=kind, label=label)
    return replace(found, rows=draw_times(kind, found.rows))
