"""Lay out small charts without axes (pure): lines and bars."""

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, TALL = 84, 22.0  # the size of a line, within 88 by 28
LEFT, TOP, FLOOR = 1.0, 3.0, 28
HEADROOM = 1.3


@dataclass(frozen=True, slots=True)
class Spark:
    """A line, the area under it, and its last point."""

    line: str
    area: str
    x: float
    y: float


def spark(
    values: Sequence[float | None], *, floor: float | None = None, steps: bool = False
) -> Spark | None:
    """Return the line through `values`, or None if there are fewer than two."""
    # The line fills the height from the least to the greatest value. A `floor` adds headroom, so
    # that a calm day looks calm. `steps` draws counts as steps.
    known = fill_gaps(values)
    if len(known) < 2:
        return None
    low = min(known) if floor is None else floor
    span = (max(known) - low) * (1 if floor is None else HEADROOM)
    step = WIDTH / (len(known) - 1)
    points = [
        (round(LEFT + n * step, 1), round(TOP + TALL * (1 - part(value - low, span)), 1))
        for n, value in enumerate(known)
    ]
    line = stairs(points) if steps else "M" + "L".join(f"{x:g} {y:g}" for x, y in points)
    x, y = points[-1]
    return Spark(line, f"{line}V{FLOOR}H{LEFT:g}Z", x, y)


def stairs(points: Sequence[tuple[float, float]]) -> str:
    (x, y), *rest = points
    return f"M{x:g} {y:g}" + "".join(f"H{x:g}V{y:g}" for x, y in rest)


def part(value: float, span: float) -> float:
    # A flat line has no span.
    return value / span if span else 0.0


def fill_gaps(values: Sequence[float | None]) -> list[float]:
    # Leading gaps are dropped; a later gap repeats the value before it.
    found: list[float] = []
    for value in values:
        if value is not None:
            found.append(value)
        elif found:
            found.append(found[-1])
    return found


STEP, THICK = 10, 8  # the step and width of a bar; the picture is stretched to fit


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars with their bad parts on top, as two paths in a box of `width` by `tall`."""

    width: int
    tall: int
    all: str
    bad: str


def bars(counts: Sequence[int], bad: Sequence[int], *, tall: int) -> Bars:
    most = max(counts, default=0)
    drawn, worse = [], []
    for n, (count, ill) in enumerate(zip(counts, bad, strict=True)):
        if not count:
            continue
        # A count above 0 stays visible.
        high = max(1.5, tall * count / most)
        drawn.append(box(n, tall - high, high))
        if ill:
            worse.append(box(n, tall - high, min(high, max(1.5, tall * ill / most))))
    return Bars(STEP * len(counts), tall, "".join(drawn), "".join(worse))


def box(n: int, y: float, high: float) -> str:
    return f"M{STEP * n} {y:.3g}h{THICK}v{high:.3g}h-{THICK}z"
