"""Lay out a task between its needs and its dependents (pure)."""

from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.charts.dependencies import MET, key_of
from dashboard.wording.badges import task_badge
from ledger.models import Task
from ledger.values.text import truncate

WIDE, TALL, GAP, COLUMN = 84, 26, 12, 114
MOST = 4  # on each side; the list below names all of them
WORD = 8


@dataclass(frozen=True, slots=True)
class Node:
    task: Task
    x: int
    y: int
    label: str
    here: bool = False

    @property
    def icon(self) -> str:
        return task_badge(self.task.state).icon

    @property
    def icon_x(self) -> int:
        return self.x + 7

    @property
    def icon_y(self) -> int:
        return self.y + 6

    @property
    def text_x(self) -> int:
        return self.x + 26

    @property
    def text_y(self) -> int:
        return self.y + 17


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph of `width` by `height`; its edges are paths, dashed if the need is not met."""

    nodes: list[Node]
    edges: list[tuple[str, bool]]
    height: int
    width: int = 2 * COLUMN + WIDE + 4


def build_graph(task: Task, needs: Sequence[Task], dependents: Sequence[Task]) -> Graph:
    left, right = needs[:MOST], dependents[:MOST]
    rows = max(len(left), len(right), 1)
    height = rows * (TALL + GAP) + GAP
    here = Node(task, COLUMN + 2, (height - TALL) // 2, name(task), here=True)
    before, after = column(left, 2, height), column(right, 2 * COLUMN + 2, height)
    edges = [(edge(node, here), node.task.state not in MET) for node in before]
    edges += [(edge(here, node), task.state not in MET) for node in after]
    return Graph([*before, here, *after], edges, height)


def column(tasks: Sequence[Task], x: int, height: int) -> list[Node]:
    top = (height - len(tasks) * (TALL + GAP) + GAP) // 2
    return [Node(task, x, top + n * (TALL + GAP), name(task)) for n, task in enumerate(tasks)]


def name(task: Task) -> str:
    said = key_of(task.ref) if task.ref else task.title or task.type
    return truncate(said, WORD)


def edge(start: Node, end: Node) -> str:
    x, y, to_x, to_y = start.x + WIDE, start.y + TALL // 2, end.x, end.y + TALL // 2
    middle = (x + to_x) // 2
    return f"M{x} {y}C{middle} {y} {middle} {to_y} {to_x} {to_y}"
