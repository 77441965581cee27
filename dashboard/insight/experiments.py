"""Draw the experiments on the retry context: shares, difference, interval (pure)."""

from dataclasses import dataclass
from math import ceil
from typing import Any

from retries.insight.intervals import Difference

# the smallest end of the scale, in points
LEAST_SCALE = 20


@dataclass(frozen=True, slots=True)
class ExperimentRow:
    """An experiment with its drawing; `difference` is None with too few attempts."""

    row: Any
    difference: Difference | None
    scale: int  # the points at both ends of the axis
    least: int  # the attempts that each side needs

    @property
    def is_running(self) -> bool:
        return self.row.ended_at is None

    @property
    def is_a_a(self) -> bool:
        return bool(self.row.element == "nothing")

    @property
    def n(self) -> int:
        return int(self.row.with_attempts + self.row.without_attempts)

    @property
    def fewest(self) -> int:
        return int(min(self.row.with_attempts, self.row.without_attempts))

    @property
    def progress(self) -> int:
        """The share of the needed attempts on the smaller side, in percent."""
        return min(100, 100 * self.fewest // self.least)

    @property
    def share_with(self) -> int:
        share: int = round(100 * self.row.with_successes / self.row.with_attempts)
        return share

    @property
    def share_without(self) -> int:
        share: int = round(100 * self.row.without_successes / self.row.without_attempts)
        return share

    @property
    def points(self) -> str:
        return sign(self.difference.value) if self.difference else ""

    @property
    def interval(self) -> str:
        found = self.difference
        return f"{sign(found.low)} … {sign(found.high)}" if found else ""

    @property
    def spoken(self) -> str:
        return f"{self.points} points, 95 percent interval {self.interval}"

    @property
    def x(self) -> str:
        return self.place(self.difference.value) if self.difference else ""

    @property
    def x_low(self) -> str:
        return self.place(self.difference.low) if self.difference else ""

    @property
    def x_high(self) -> str:
        return self.place(self.difference.high) if self.difference else ""

    def place(self, value: float) -> str:
        return f"{50 + 50 * 100 * value / self.scale:.2f}%"


def sign(value: float) -> str:
    """Return a difference in points with its sign.

    >>> sign(-0.061), sign(0.02), sign(0.001)
    ('−6', '+2', '0')
    """
    points = round(100 * value)
    return f"−{-points}" if points < 0 else f"+{points}" if points else "0"


def find_scale(differences: list[Difference]) -> int:
    # The scale ends at a multiple of ten that holds all intervals.
    ends = [abs(end) for each in differences for end in (each.low, each.high)]
    return max(LEAST_SCALE, *(10 * ceil(10 * end) for end in ends)) if ends else LEAST_SCALE
