"""Draw the outcomes of the last day's instructions in stacked bars, one per half hour."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.safestring import SafeString

from dashboard.overview.queries import HALF_HOUR, HalfHour

BASE, TOP = 120.0, 24.0  # pixels from the top: the axis, and the end of the highest bar
GAP = 0.32  # percent of the width on each side of a bar
TICK_HOURS = 4


@dataclass(frozen=True, slots=True)
class OutcomeBar:
    """A half hour: the SVG of its parts, its tooltip, and its label for screen readers."""

    start: str
    end: str
    label: str
    tip: str
    hit: float
    hit_width: float
    parts: SafeString


@dataclass(frozen=True, slots=True)
class Tick:
    at: datetime
    x: float
    minor: bool  # hidden on phones


@dataclass(frozen=True, slots=True)
class OutcomeChart:
    """The bars and their axis, with the totals for the legend."""

    bars: list[OutcomeBar]
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


def draw_outcomes(half_hours: Sequence[HalfHour]) -> OutcomeChart:
    top = round_axis_top(max((each.sent for each in half_hours), default=0))
    return OutcomeChart(
        bars=[draw_bar(each, n, len(half_hours), top) for n, each in enumerate(half_hours)],
        ticks=place_ticks(half_hours),
        top=top,
        first=sum(each.first for each in half_hours),
        reminded=sum(each.reminded for each in half_hours),
        failed=sum(each.failed for each in half_hours),
        waiting=sum(each.waiting for each in half_hours),
    )


def round_axis_top(largest: int) -> int:
    """Return a round, even number that is not less than the largest value.

    >>> [round_axis_top(n) for n in (0, 3, 11, 39, 41, 1040)]
    [2, 4, 12, 40, 60, 1200]
    """
    size = 1
    while True:
        for step in (2, 4, 6, 8, 10, 12):
            if largest <= step * size:
                return step * size
        size *= 10


def draw_bar(half_hour: HalfHour, n: int, total: int, top: int) -> OutcomeBar:
    step, end = 100 / total, half_hour.at + HALF_HOUR
    span = f"{half_hour.at:%H:%M} to {end:%H:%M}"
    counts = [
        ("First delivery", half_hour.first),
        ("After a reminder", half_hour.reminded),
        ("Gave up", half_hour.failed),
        *([("Waiting", half_hour.waiting)] if half_hour.waiting else []),
    ]
    return OutcomeBar(
        start=half_hour.at.isoformat(),
        end=end.isoformat(),
        label=f"{span} UTC: {', '.join(f'{name.lower()} {count:,}' for name, count in counts)}",
        tip="|".join([span, *(f"{name} {count:,}" for name, count in counts)]),
        hit=round(n * step, 2),
        hit_width=round(step, 2),
        parts=draw_parts(half_hour, top, x=n * step + GAP, width=step - 2 * GAP),
    )


def draw_parts(half_hour: HalfHour, top: int, *, x: float, width: float) -> SafeString:
    """Return the rectangles of a bar from the bottom up, with a pixel between two of them."""
    # a template would take longer for 48 bars than for the rest of the page; numbers are safe
    rects: list[str] = []
    y = BASE
    for css, count in (
        ("f-ok", half_hour.first),
        ("f-retry", half_hour.reminded),
        ("f-wait", half_hour.waiting),
        ("f-fail", half_hour.failed),
    ):
        if not count:
            continue
        # even the smallest part stays visible
        height = max(2.0, (BASE - TOP) * count / top)
        y -= height + (1 if rects else 0)
        place = f'x="{x:.2f}%" y="{y:.1f}" width="{width:.2f}%"'
        rects.append(f'<rect class="{css}" {place} height="{height:.1f}"/>')
        if css == "f-ok":
            rects.append(f'<rect class="f-ok-cap" {place} height="1.5"/>')
        if css == "f-retry":
            rects.append(f'<rect fill="url(#hatch)" {place} height="{height:.1f}"/>')
    return SafeString("".join(rects))


def place_ticks(half_hours: Sequence[HalfHour]) -> list[Tick]:
    """Return a tick every four hours, without those too close to the edges and to "now"."""
    step = 100 / max(1, len(half_hours))
    places = [
        (each.at, round(n * step, 2))
        for n, each in enumerate(half_hours)
        if each.at.hour % TICK_HOURS == 0 and each.at.minute == 0 and 2 < n * step < 94
    ]
    return [Tick(at, x, minor=n % 2 == 1) for n, (at, x) in enumerate(places)]
