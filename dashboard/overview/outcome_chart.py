"""The chart of Overview (pure): what became of what was sent, half hour by half hour."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.safestring import SafeString

from dashboard.overview.queries import HALF_HOUR, Bin

BASE, TOP = 120.0, 24.0  # of the tallest bar, in pixels from above
GAP = 0.32  # beside a bar, in percent
TICK_HOURS = 4


@dataclass(frozen=True, slots=True)
class Bar:
    """A half hour: its parts, what a tip tells of it, and what a reader of screens is told."""

    start: str
    end: str
    said: str
    tip: str
    hit: float
    hit_width: float
    parts: SafeString


@dataclass(frozen=True, slots=True)
class Tick:
    at: datetime
    x: float
    minor: bool  # left out on a phone


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Bars with their axis, and the sums for the legend."""

    bars: list[Bar]
    ticks: list[Tick]
    top: int
    first: int
    reminded: int
    failed: int
    waiting: int

    @property
    def half(self) -> int:
        return self.top // 2

    @property
    def summary(self) -> str:
        """Return a description of the chart for screen readers."""
        return (
            f"Instructions sent per half hour over the last 24 hours: {self.first:,} acknowledged "
            f"at the first sending, {self.reminded:,} after a reminder, {self.failed:,} given up, "
            f"{self.waiting:,} waiting."
        )


def outcomes(bins: Sequence[Bin]) -> Outcomes:
    top = even_top(max((bin.sent for bin in bins), default=0))
    return Outcomes(
        bars=[bar(bin, n, len(bins), top) for n, bin in enumerate(bins)],
        ticks=ticks(bins),
        top=top,
        first=sum(bin.first for bin in bins),
        reminded=sum(bin.reminded for bin in bins),
        failed=sum(bin.failed for bin in bins),
        waiting=sum(bin.waiting for bin in bins),
    )


def even_top(most: int) -> int:
    """A round number not below `most` with a whole half.

    >>> [even_top(n) for n in (0, 3, 11, 39, 41, 1040)]
    [2, 4, 12, 40, 60, 1200]
    """
    size = 1
    while True:
        for step in (2, 4, 6, 8, 10, 12):
            if most <= step * size:
                return step * size
        size *= 10


def bar(bin: Bin, n: int, of: int, top: int) -> Bar:
    step, end = 100 / of, bin.at + HALF_HOUR
    span = f"{bin.at:%H:%M} to {end:%H:%M}"
    named = [
        ("First sending", bin.first),
        ("After a reminder", bin.reminded),
        ("Gave up", bin.failed),
        *([("Waiting", bin.waiting)] if bin.waiting else []),
    ]
    return Bar(
        start=bin.at.isoformat(),
        end=end.isoformat(),
        said=f"{span} UTC: {', '.join(f'{name.lower()} {count:,}' for name, count in named)}",
        tip="|".join([span, *(f"{name} {count:,}" for name, count in named)]),
        hit=round(n * step, 2),
        hit_width=round(step, 2),
        parts=parts(bin, top, x=n * step + GAP, width=step - 2 * GAP),
    )


def parts(bin: Bin, top: int, *, x: float, width: float) -> SafeString:
    """From the bottom up; what is there at all can be seen, a pixel of air between two.

    Written here and not in a template, where 48 bars would take longer than the rest of the page;
    safe, because it is made of numbers.
    """
    made: list[str] = []
    y = BASE
    for css, count in (
        ("f-ok", bin.first),
        ("f-retry", bin.reminded),
        ("f-wait", bin.waiting),
        ("f-fail", bin.failed),
    ):
        if not count:
            continue
        height = max(2.0, (BASE - TOP) * count / top)
        y -= height + (1 if made else 0)
        place = f'x="{x:.2f}%" y="{y:.1f}" width="{width:.2f}%"'
        made.append(f'<rect class="{css}" {place} height="{height:.1f}"/>')
        if css == "f-ok":
            made.append(f'<rect class="f-ok-cap" {place} height="1.5"/>')
        if css == "f-retry":
            made.append(f'<rect fill="url(#hatch)" {place} height="{height:.1f}"/>')
    return SafeString("".join(made))


def ticks(bins: Sequence[Bin]) -> list[Tick]:
    """Every four hours, where there is room beside the word "now"."""
    step = 100 / max(1, len(bins))
    found = [
        Tick(bin.at, round(n * step, 2), minor=False)
        for n, bin in enumerate(bins)
        if bin.at.hour % TICK_HOURS == 0 and bin.at.minute == 0 and 2 < n * step < 94
    ]
    return [Tick(tick.at, tick.x, minor=n % 2 == 1) for n, tick in enumerate(found)]
