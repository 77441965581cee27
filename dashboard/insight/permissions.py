"""Add up how long agents waited for people to decide about their calls (pure)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LISTED = 12


@dataclass(frozen=True, slots=True)
class PermissionWaits:
    """The waits of all projects, with the calls that waited longest first."""

    asked: int
    waited_s: float
    rows: Sequence[Mapping[str, Any]]


def combine_waits(figures: Sequence[tuple[str, Mapping[str, Any]]]) -> PermissionWaits:
    rows = [{**row, "project": name} for name, data in figures for row in data["rows"]]
    return PermissionWaits(
        sum(data["asked"] for _, data in figures),
        sum(data["waited_s"] for _, data in figures),
        sorted(rows, key=lambda row: -row["waited_s"])[:LISTED],
    )
