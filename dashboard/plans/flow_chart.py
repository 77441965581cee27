"""Draw how a plan's tasks fail and end: bands between bars, as wide as the tasks in them (pure)."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from dashboard.wording.formatting import counted
from ledger.states import TaskState

WIDTH, BAR_WIDTH, END_X = 840, 7, 706
BARS_X = {0: (0,), 1: (0, 340), 2: (0, 286, 516), 3: (0, 220, 400, 560)}
MAX_FAILURES = 3  # more failures share the last bar
MIN_TASKS = 3
HEIGHT, TOP, GAP = 140, 22, 17
NAMES = ("started", "failed once", "failed twice", "failed three times or more")
# the states from top to bottom: the class of the band and bar, and the word
ENDS = (
    (TaskState.DONE, "ok", "done"),
    (TaskState.RUNNING, "run", "running"),
    (TaskState.RETRY, "wait", "waiting to retry"),
    (TaskState.QUEUED, "wait", "queued"),
    (TaskState.BLOCKED, "wait", "blocked"),
    (TaskState.ESCALATED, "bad", "needs an answer"),
    (TaskState.FAILED, "bad", "given up"),
    (TaskState.SKIPPED, "wait", "skipped"),
    (TaskState.ABORTED, "wait", "aborted"),
)
PLURAL = {TaskState.ESCALATED: "need an answer"}
ENDED_BY_FAILING = (TaskState.ESCALATED, TaskState.FAILED)


@dataclass(frozen=True, slots=True)
class FlowBar:
    x: int
    y: float
    height: float
    css: str
    count: int
    word: str

    @property
    def text_y(self) -> float:
        # The text is in the middle of a bar at the end, and above any other bar.
        return round(self.y + self.height / 2 + 4, 1) if self.x >= END_X else self.y - 9

    @property
    def text_x(self) -> int:
        return END_X + BAR_WIDTH + 9 if self.x >= END_X else self.x


@dataclass(frozen=True, slots=True)
class FlowChart:
    bands: list[tuple[str, str]]  # CSS class and path
    bars: list[FlowBar]
    height: int
    summary: str
    width: int = WIDTH


def draw_flow(tasks: Iterable[Any], failures: Mapping[UUID, int]) -> FlowChart | None:
    """Return the chart of the tasks that have started, or None if there are too few."""
    started = [task for task in tasks if task.attempts]
    if len(started) < MIN_TASKS:
        return None
    paths = Counter(
        (count_turns(task, failures.get(task.pk, 0)), TaskState(task.state)) for task in started
    )
    return lay_out(paths)


def count_turns(task: Any, failures: int) -> int:
    """Return how often a task failed and was tried again, up to MAX_FAILURES."""
    if task.state in ENDED_BY_FAILING:
        # The last failure ended the task: it was not tried again.
        failures -= 1
    return min(max(failures, 0), MAX_FAILURES)


def lay_out(paths: Counter[tuple[int, TaskState]]) -> FlowChart:
    """Place the bars from left to right, the ends from top to bottom, and the bands between."""
    deepest = max(depth for depth, _ in paths)
    xs = BARS_X[deepest]
    ends = [end for end in ENDS if any(state == end[0] for _, state in paths)]
    unit = HEIGHT / paths.total()
    room = GAP * (len(ends) - 1)
    height = max(TOP + HEIGHT + room + 4, 120)
    passing = [
        sum(n for (at, _), n in paths.items() if at >= depth) for depth in range(MAX_FAILURES + 1)
    ]

    end_y: dict[TaskState, float] = {}
    y = float(TOP - 4)
    bars = []
    for state, css, word in ends:
        n = sum(count for (_, of), count in paths.items() if of == state)
        end_y[state] = y
        label = PLURAL.get(state, word) if n > 1 else word
        bars.append(FlowBar(END_X, round(y, 1), round(unit * n, 1), f"b-{css}", n, label))
        y += unit * n + GAP

    bands: list[tuple[str, str]] = []
    bar_y = [TOP + (room + 30) * depth / 3 + unit * (passing[0] - passing[depth]) * 0.8
             for depth in range(deepest + 1)]  # fmt: skip
    for depth in range(deepest + 1):
        top, n = bar_y[depth], passing[depth]
        bars.append(FlowBar(xs[depth], round(top, 1), round(unit * n, 1), "bar-n", n, NAMES[depth]))
        for state, css, _ in ends:
            if n := paths[(depth, state)]:
                bands.append(draw_band(f"l-{css}", xs[depth], END_X, top, end_y[state], unit * n))
                top += unit * n
                end_y[state] += unit * n
        if depth < deepest:
            wide, to_x, to_y = unit * passing[depth + 1], xs[depth + 1], bar_y[depth + 1]
            bands.append(draw_band("l-retry", xs[depth], to_x, top, to_y, wide))
    lowest = max(bar.y + bar.height for bar in bars)
    return FlowChart(bands, bars, round(max(height - GAP, lowest + 8)), summarize(paths, passing))


def draw_band(css: str, x: int, to_x: int, y: float, to_y: float, wide: float) -> tuple[str, str]:
    start, middle = x + BAR_WIDTH, (x + BAR_WIDTH + to_x) / 2
    return css, (
        f"M{start} {y:.1f}C{middle:g} {y:.1f} {middle:g} {to_y:.1f} {to_x} {to_y:.1f}"
        f"V{to_y + wide:.1f}C{middle:g} {to_y + wide:.1f} {middle:g} {y + wide:.1f} "
        f"{start} {y + wide:.1f}Z"
    )


def summarize(paths: Counter[tuple[int, TaskState]], passing: list[int]) -> str:
    parts = [f"{counted(passing[0], 'task')} started"]
    parts += [f"{n} {name}" for n, name in zip(passing[1:], NAMES[1:], strict=True) if n]
    for state, _, word in ENDS:
        n = sum(count for (_, of), count in paths.items() if of == state)
        if n:
            parts.append(f"{n} {PLURAL.get(state, word) if n > 1 else word}")
    return f"{', '.join(parts)}."
