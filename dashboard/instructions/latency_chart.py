"""Lay out the chart of times to acknowledge (pure): percent along the axis, pixels up."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

# the upper ends of the classes in seconds; the last class has none
LATENCY_EDGES = (1, 2, 4, 8, 15, 30, 60)
BASE, TALLEST = 134.0, 92.0


@dataclass(frozen=True, slots=True)
class Bar:
    """A class of latencies: acknowledgments of the first delivery, and after a reminder."""

    label: str
    tick: str
    x: float
    width: float
    first: int
    reminded: int
    y_first: float
    y_reminded: float

    @property
    def total(self) -> int:
        return self.first + self.reminded

    @property
    def hit_x(self) -> float:
        return round(self.x - 0.5, 2)

    @property
    def hit_width(self) -> float:
        return self.width + 1

    @property
    def tick_x(self) -> float:
        return round(self.x - 0.5 + self.hit_width, 2)

    @property
    def middle(self) -> float:
        return round(self.x + self.width / 2, 2)

    @property
    def y_number(self) -> float:
        return round(self.y_reminded - 5, 1)

    @property
    def first_height(self) -> float:
        return round(BASE - self.y_first, 1)

    @property
    def reminded_height(self) -> float:
        return round(self.y_first - self.y_reminded, 1)


@dataclass(frozen=True, slots=True)
class PercentileLine:
    """A dashed line at a percentile, with its label on the side that has room."""

    x: float
    text: str
    before: bool
    y: int = 11

    @property
    def anchor(self) -> str:
        return "end" if self.before else "start"

    @property
    def dx(self) -> int:
        return -5 if self.before else 5


def latency_bars(counts: Mapping[tuple[int, bool], int]) -> list[Bar]:
    classes = range(len(LATENCY_EDGES) + 1)
    step = 100 / len(classes)
    most = max((counts.get((n, False), 0) + counts.get((n, True), 0) for n in classes), default=0)
    bars = []
    for n in classes:
        first, reminded = counts.get((n, False), 0), counts.get((n, True), 0)
        y_first = BASE - height(first, most)
        bars.append(
            Bar(
                label=class_label(n),
                tick=tick(n),
                x=round(n * step + 0.5, 2),
                width=step - 1,
                first=first,
                reminded=reminded,
                y_first=round(y_first, 1),
                y_reminded=round(y_first - height(reminded, most), 1),
            )
        )
    return bars


def height(count: int, most: int) -> float:
    # A count above 0 stays visible.
    return max(1.5, TALLEST * count / most) if count else 0.0


def class_label(n: int) -> str:
    if n == len(LATENCY_EDGES):
        return f"over {LATENCY_EDGES[-1]} s"
    return f"{LATENCY_EDGES[n - 1] if n else 0} to {LATENCY_EDGES[n]} s"


def tick(n: int) -> str:
    if n == len(LATENCY_EDGES):
        return ""
    unit = " s" if n in (0, len(LATENCY_EDGES) - 1) else ""
    return f"{LATENCY_EDGES[n]}{unit}"


def latency_x(seconds: float) -> float:
    """Return where a time is on the axis of classes, in percent."""
    edges = (0, *LATENCY_EDGES, LATENCY_EDGES[-1] * 10)
    step = 100 / (len(edges) - 1)
    for n, (low, high) in enumerate(pairwise(edges)):
        if seconds < high:
            return round((n + (seconds - low) / (high - low)) * step, 2)
    return 99.0


def percentile_lines(
    p50: float | None, p95: float | None, *, labels: tuple[str, str]
) -> list[PercentileLine]:
    if p50 is None or p95 is None:
        return []
    low, high = latency_x(p50), latency_x(p95)
    # Labels that would overlap are placed on two lines.
    apart = (low > 30 and high <= 70) or high - low > 45
    return [
        PercentileLine(low, labels[0], before=low > 30),
        PercentileLine(high, labels[1], before=high > 70, y=11 if apart else 25),
    ]
