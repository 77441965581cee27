"""Define figures, their targets, and the statistics over their rounds."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any


@dataclass(frozen=True)
class Scale:
    """The number and length of measurement rounds."""

    rounds: int = 5
    seconds: int = 5
    quick: bool = False
    against: str = ""  # the revision to compare pages with


QUICK = Scale(rounds=3, seconds=2, quick=True)


@dataclass(frozen=True)
class Target:
    """A figure's limit: a minimum or a maximum."""

    limit: float
    is_minimum: bool

    def is_met(self, value: float) -> bool:
        return value >= self.limit if self.is_minimum else value <= self.limit

    def __str__(self) -> str:
        return f"{'≥' if self.is_minimum else '≤'} {self.limit:g}"


def at_least(limit: float) -> Target:
    return Target(limit, is_minimum=True)


def at_most(limit: float) -> Target:
    return Target(limit, is_minimum=False)


class Ratios(list[float]):
    """The ratios of some rounds, and what they compare with."""

    baseline: list[float]


@dataclass(frozen=True)
class Figure:
    """One row of the table, with or without a target."""

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
        return "OK" if self.target.is_met(self.median) else "MISSED"

    @property
    def scatter(self) -> list[float]:
        """Return how much the same code differed from itself, each time from the round before.

        For a ratio that is the code it compares with.
        """
        rounds = self.values.baseline if isinstance(self.values, Ratios) else self.values
        return [later / earlier for earlier, later in pairwise(rounds) if earlier]

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "unit": self.unit,
            "median": round(self.median, 4),
            "min": round(min(self.values), 4),
            "max": round(max(self.values), 4),
            "rounds": [round(value, 4) for value in self.values],
            "same_code_twice": [round(value, 4) for value in self.scatter],
            "target": str(self.target) if self.target else None,
            "verdict": self.verdict,
            **({"note": self.note} if self.note else {}),
            **self.detail,
        }


def summarize(values: Sequence[float]) -> dict[str, float]:
    """Return the median, minimum, and maximum."""
    return {
        "median": round(statistics.median(values), 3),
        "min": round(min(values), 3),
        "max": round(max(values), 3),
    }


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> Ratios:
    """Divide round by round, because only runs within seconds of each other are comparable."""
    found = Ratios(a / b for a, b in zip(ours, theirs, strict=True))
    found.baseline = list(theirs)
    return found


Say = Callable[[str], None]
