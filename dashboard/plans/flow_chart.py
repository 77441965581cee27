"""How a plan's tasks got through, as bands from failure to failure (pure): widths are tasks."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from dashboard.formatting import counted
from ledger.states import TaskState

WIDE, THICK, END_X = 840, 7, 706
NODES_X = {0: (0,), 1: (0, 340), 2: (0, 286, 516), 3: (0, 220, 400, 560)}
MOST = 3  # failures told apart
FEWEST = 3  # tasks that make a picture
TALL, TOP, GAP = 140, 22, 17
NAMES = ("started", "failed once", "failed twice", "failed three times or more")
# where a task stands: the class of its band and of its bar, and the word; in order from the top
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
class Bar:
    x: int
    y: float
    height: float
    css: str
    count: int
    word: str

    @property
    def text_y(self) -> float:
        """Beside a bar at the end, above one on the way."""
        return round(self.y + self.height / 2 + 4, 1) if self.x >= END_X else self.y - 9

    @property
    def text_x(self) -> int:
        return END_X + THICK + 9 if self.x >= END_X else self.x


@dataclass(frozen=True, slots=True)
class Flow:
    bands: list[tuple[str, str]]  # class and path
    bars: list[Bar]
    height: int
    finding: str
    width: int = WIDE


def flow(tasks: Iterable[Any], failures: Mapping[UUID, int]) -> Flow | None:
    """The picture of the tasks that have started; None while there are too few for one."""
    started = [task for task in tasks if task.attempts]
    if len(started) < FEWEST:
        return None
    paths = Counter(
        (turns(task, failures.get(task.pk, 0)), TaskState(task.state)) for task in started
    )
    return drawn(paths)


def turns(task: Any, failed: int) -> int:
    """How often it failed and went on; the last failure of one that was given up is its end."""
    if task.state in ENDED_BY_FAILING:
        failed -= 1
    return min(max(failed, 0), MOST)


def drawn(paths: Counter[tuple[int, TaskState]]) -> Flow:
    """The bars from left to right, the ends from top to bottom, and the bands between."""
    deepest = max(depth for depth, _ in paths)
    xs = NODES_X[deepest]
    ends = [end for end in ENDS if any(state == end[0] for _, state in paths)]
    unit = TALL / paths.total()
    room = GAP * (len(ends) - 1)
    height = max(TOP + TALL + room + 4, 120)
    passing = [sum(n for (at, _), n in paths.items() if at >= depth) for depth in range(MOST + 1)]

    end_y: dict[TaskState, float] = {}
    y = float(TOP - 4)
    bars = []
    for state, css, word in ends:
        n = sum(count for (_, of), count in paths.items() if of == state)
        end_y[state] = y
        said = PLURAL.get(state, word) if n > 1 else word
        bars.append(Bar(END_X, round(y, 1), round(unit * n, 1), f"b-{css}", n, said))
        y += unit * n + GAP

    bands: list[tuple[str, str]] = []
    node_y = [TOP + (room + 30) * depth / 3 + unit * (passing[0] - passing[depth]) * 0.8
              for depth in range(deepest + 1)]  # fmt: skip
    for depth in range(deepest + 1):
        top = node_y[depth]
        bars.append(
            Bar(xs[depth], round(top, 1), round(unit * passing[depth], 1), "bar-n", passing[depth],
                NAMES[depth])
        )  # fmt: skip
        for state, css, _ in ends:
            if n := paths[(depth, state)]:
                bands.append(band(f"l-{css}", xs[depth], END_X, top, end_y[state], unit * n))
                top += unit * n
                end_y[state] += unit * n
        if depth < deepest:
            wide = unit * passing[depth + 1]
            bands.append(band("l-retry", xs[depth], xs[depth + 1], top, node_y[depth + 1], wide))
    lowest = max(bar.y + bar.height for bar in bars)
    return Flow(bands, bars, round(max(height - GAP, lowest + 8)), finding(paths, passing))


def band(css: str, x: int, to_x: int, y: float, to_y: float, wide: float) -> tuple[str, str]:
    start, middle = x + THICK, (x + THICK + to_x) / 2
    return css, (
        f"M{start} {y:.1f}C{middle:g} {y:.1f} {middle:g} {to_y:.1f} {to_x} {to_y:.1f}"
        f"V{to_y + wide:.1f}C{middle:g} {to_y + wide:.1f} {middle:g} {y + wide:.1f} "
        f"{start} {y + wide:.1f}Z"
    )


def finding(paths: Counter[tuple[int, TaskState]], passing: list[int]) -> str:
    """The picture in a sentence, for readers of a screen."""
    said = [f"{counted(passing[0], 'task')} started"]
    said += [f"{n} {name}" for n, name in zip(passing[1:], NAMES[1:], strict=True) if n]
    for state, _, word in ENDS:
        n = sum(count for (_, of), count in paths.items() if of == state)
        if n:
            said.append(f"{n} {PLURAL.get(state, word) if n > 1 else word}")
    return f"{', '.join(said)}."
