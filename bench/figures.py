"""What a measurement comes to: a ratio, the target it is held to, and the rounds behind it."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Scale:
    """How long to measure."""

    rounds: int = 5
    seconds: int = 5
    quick: bool = False


QUICK = Scale(rounds=3, seconds=2, quick=True)


@dataclass(frozen=True)
class Target:
    """The limit of a figure: at least so much, or at most."""

    limit: float
    least: bool

    def met(self, value: float) -> bool:
        return value >= self.limit if self.least else value <= self.limit

    def __str__(self) -> str:
        return f"{'≥' if self.least else '≤'} {self.limit:g}"


def at_least(limit: float) -> Target:
    return Target(limit, least=True)


def at_most(limit: float) -> Target:
    return Target(limit, least=False)


@dataclass(frozen=True)
class Figure:
    """One line of the table; one without a target is for the record."""

    name: str
    values: list[float]
    unit: str = "×"
    target: Target | None = None
    detail: dict[str, Any] = field(default_factory=dict)
    note: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def verdict(self) -> str:
        if self.target is None:
            return "-"
        return "OK" if self.target.met(self.median) else "MISSED"

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "unit": self.unit,
            "median": round(self.median, 4),
            "min": round(min(self.values), 4),
            "max": round(max(self.values), 4),
            "rounds": [round(value, 4) for value in self.values],
            "target": str(self.target) if self.target else None,
            "verdict": self.verdict,
            **({"note": self.note} if self.note else {}),
            **self.detail,
        }


def summary(values: Sequence[float]) -> dict[str, float]:
    """Median, minimum and maximum."""
    return {
        "median": round(statistics.median(values), 3),
        "min": round(min(values), 3),
        "max": round(max(values), 3),
    }


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Round by round, because only what ran within seconds of each other compares."""
    return [a / b for a, b in zip(ours, theirs, strict=True)]


Say = Callable[[str], None]
