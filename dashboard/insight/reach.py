"""Draw how long instructions take to be delivered, read, and followed (pure)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

STEPS = ("delivery", "read", "ack")


@dataclass(frozen=True, slots=True)
class ReachRow:
    """The times of an agent's instructions, or of all instructions of a project."""

    data: Mapping[str, Any]
    least: int
    is_project: bool = False

    @property
    def is_shown(self) -> bool:
        return bool(self.data["sent"] >= self.least)

    @property
    def times(self) -> list[tuple[float | None, float | None]]:
        """Return the median and the 95th percentile of each of the three times."""
        return [(self.data[f"{step}_p50_s"], self.data[f"{step}_p95_s"]) for step in STEPS]


def list_reach(figures: Sequence[tuple[str, Mapping[str, Any]]]) -> list[ReachRow]:
    # A project's own row comes before the rows of its agents.
    return [
        row
        for name, data in figures
        if data["rows"]
        for row in (
            ReachRow({**data["whole"], "name": name}, data["least"], is_project=True),
            *(ReachRow(each, data["least"]) for each in data["rows"]),
        )
    ]
