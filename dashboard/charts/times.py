"""Describe and draw how long tasks wait and attempts run (pure)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dashboard.wording.formatting import duration

MEASURES = (("wait", "Wait", "task"), ("run", "Run", "attempt"))


@dataclass(frozen=True, slots=True)
class Time:
    """A wait or run time: within which half of the cases are, and 95%; bars end at `longest`."""

    label: str
    noun: str
    n: int
    p50: float | None  # None: too few cases
    p95: float | None
    longest: float = 0.0

    @property
    def text(self) -> str:
        if self.p50 is None or self.p95 is None:
            return "–"
        return f"{duration(self.p50)}, {duration(self.p95)}"

    @property
    def half_width(self) -> str:
        return self.measure_width(self.p50)

    @property
    def width(self) -> str:
        return self.measure_width(self.p95)

    def measure_width(self, seconds: float | None) -> str:
        return f"{100 * (seconds or 0) / self.longest:.1f}%" if self.longest else "0%"


@dataclass(frozen=True, slots=True)
class TimeRow:
    """The tasks and attempts of an agent, a type, or a plan."""

    kind: str
    data: Mapping[str, Any]
    times: list[Time]


def read_times(data: Mapping[str, Any], longest: Mapping[str, float] | None = None) -> list[Time]:
    return [
        Time(
            label,
            noun,
            data[f"{name}_n"],
            data[f"{name}_p50_s"],
            data[f"{name}_p95_s"],
            (longest or {}).get(name, 0.0),
        )
        for name, label, noun in MEASURES
    ]


def draw_times(kind: str, rows: Sequence[Mapping[str, Any]]) -> list[TimeRow]:
    # The bars of a group have one scale for waits, and one for runs.
    longest = {
        name: max((row[f"{name}_p95_s"] or 0.0 for row in rows), default=0.0)
        for name, _, _ in MEASURES
    }
    return [TimeRow(kind, row, read_times(row, longest)) for row in rows]
