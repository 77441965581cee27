"""Draw how tasks and instructions ended, in stacked bars on one axis of time (pure)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.safestring import SafeString

from dashboard.overview.trends import Slot, Trend

GAP = 0.18  # the share of a bar's step on each side
TOP = 20.0  # pixels from the top: the end of the highest bar
TICK_HOURS, TICK_DAYS = 4, 5


@dataclass(frozen=True, slots=True)
class Part:
    """A part of each bar, from the bottom up."""

    label: str
    css: str
    count: Callable[[Slot], int]


TASKS = (
    Part("First attempt", "f-ok", lambda slot: slot.tasks_done_first),
    Part("After a retry", "f-retry", lambda slot: slot.tasks_done_later),
    Part("Failed", "f-fail", lambda slot: slot.tasks_failed),
)
INSTRUCTIONS = (
    Part("First delivery", "f-ok", lambda slot: slot.acknowledged_first),
    Part("After a reminder", "f-retry", lambda slot: slot.acknowledged_later),
    Part("Gave up", "f-fail", lambda slot: slot.given_up),
)


@dataclass(frozen=True, slots=True)
class OutcomeBar:
    """The SVG of a bar's parts, its tooltip, and its label for screen readers."""

    start: str  # empty if the reader's time would not fit a day of UTC
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
    label: str
    is_hour: bool
    minor: bool  # hidden on phones


@dataclass(frozen=True, slots=True)
class Total:
    """An entry of the legend."""

    label: str
    css: str
    count: int


@dataclass(frozen=True, slots=True)
class OutcomeChart:
    """The bars of tasks or of instructions with their axis; `base` is its place in pixels."""

    noun: str
    bars: list[OutcomeBar]
    top: int
    base: float
    totals: list[Total]
    span: str

    @property
    def height(self) -> float:
        return self.base + 4

    @property
    def summary(self) -> str:
        counts = ", ".join(f"{each.count:,} {each.label.lower()}" for each in self.totals)
        return f"{self.noun} of the last {self.span}: {counts}."


@dataclass(frozen=True, slots=True)
class BreakerMark:
    """The time in which an agent's breaker was open, in percent of the axis."""

    x: float
    width: float
    label: str  # empty where it has no room

    @property
    def middle(self) -> float:
        return min(self.x + self.width / 2, 100)

    @property
    def anchor(self) -> str:
        # The label must stay within the chart.
        return "end" if self.middle > 92 else "start" if self.middle < 8 else "middle"


def draw_outcomes(trend: Trend, noun: str, parts: Sequence[Part], *, base: float) -> OutcomeChart:
    top = round_axis_top(
        max((sum(part.count(slot) for part in parts) for slot in trend.slots), default=0)
    )
    return OutcomeChart(
        noun,
        [draw_bar(trend, n, slot, parts, top, base) for n, slot in enumerate(trend.slots)],
        top,
        base,
        [Total(part.label, part.css, part.count(trend.whole)) for part in parts],
        trend.range.name,
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


def draw_bar(
    trend: Trend, n: int, slot: Slot, parts: Sequence[Part], top: int, base: float
) -> OutcomeBar:
    step, bar = 100 / len(trend.slots), trend.range.bar
    start = trend.start + n * bar
    span = describe_span(start, bar)
    counts = [(part.label, part.count(slot)) for part in parts]
    in_hours = bar < timedelta(days=1)
    return OutcomeBar(
        start=start.isoformat() if bar < timedelta(hours=1) else "",
        end=(start + bar).isoformat(),
        label=f"{span}{' UTC' if in_hours else ''}: "
        + ", ".join(f"{name.lower()} {count:,}" for name, count in counts),
        tip="|".join([span, *(f"{name} {count:,}" for name, count in counts)]),
        hit=round(n * step, 2),
        hit_width=round(step, 2),
        parts=draw_parts(slot, parts, top, base, x=(n + GAP) * step, width=step * (1 - 2 * GAP)),
    )


def describe_span(start: datetime, bar: timedelta) -> str:
    end = start + bar
    if bar >= timedelta(days=1):
        return f"{start.day} {start:%b}"
    day = "" if bar < timedelta(hours=1) else f"{start.day} {start:%b} "
    return f"{day}{start:%H:%M} to {end:%H:%M}"


def draw_parts(
    slot: Slot, parts: Sequence[Part], top: int, base: float, *, x: float, width: float
) -> SafeString:
    """Return a bar's rectangles from the bottom up."""
    # a template would take longer for 96 bars than for the rest of the page; numbers are safe
    rects: list[str] = []
    y = base
    for part in parts:
        count = part.count(slot)
        if not count:
            continue
        # even the smallest part stays visible
        height = max(2.0, (base - TOP) * count / top)
        # One pixel separates two parts.
        y -= height + (1 if rects else 0)
        place = f'x="{x:.2f}%" y="{y:.1f}" width="{width:.2f}%"'
        rects.append(f'<rect class="{part.css}" {place} height="{height:.1f}"/>')
        if part.css == "f-ok":
            rects.append(f'<rect class="f-ok-cap" {place} height="1.5"/>')
        if part.css == "f-retry":
            rects.append(f'<rect fill="url(#hatch)" {place} height="{height:.1f}"/>')
    return SafeString("".join(rects))


def place_ticks(trend: Trend) -> list[Tick]:
    step, bar = 100 / len(trend.slots), trend.range.bar
    found: list[Tick] = []
    for n in range(len(trend.slots)):
        at = trend.start + n * bar
        # Labels too close to the edges are left out.
        if not (2 < n * step < 94 and is_tick(at, n, bar)):
            continue
        is_hour = bar < timedelta(hours=1)
        label = f"{at:%H:%M}" if is_hour else f"{at.day} {at:%b}"
        found.append(Tick(at, round(n * step, 2), label, is_hour, minor=len(found) % 2 == 1))
    return found


def is_tick(at: datetime, n: int, bar: timedelta) -> bool:
    if bar >= timedelta(days=1):
        return n % TICK_DAYS == 0
    if bar >= timedelta(hours=1):
        return at.hour == 0
    return at.hour % TICK_HOURS == 0 and at.minute == 0
