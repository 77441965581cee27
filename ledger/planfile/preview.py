"""Show a plan as its file has it: a tree of tasks with lines, needs, criteria, warnings (pure)."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ledger.planfile.model import PlanFile, PlanTask, shorten_title

AT_LINE = re.compile(r"Lines? ([0-9]{1,9})\b")
MOST_ROWS = 1_000  # all open tasks fit; of those that are done and of warnings, the first ones
MOST_CRITERIA = 20
MOST_SHOWN = 50  # needs of a task
DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewRow:
    """A task of a plan file, or a line that is none but has a warning (`ref` is "" then).

    `name` is what the file calls the task, such as 1.2, and `after` has the names of those that it
    needs; `line` is 0 in a format whose tasks have no lines.
    """

    ref: str = ""
    name: str = ""
    title: str = ""
    level: int = 0
    line: int = 0
    source: str = ""
    change: str = ""
    agent: str = ""
    after: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    criteria: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    command: str = ""
    is_proposed: bool = False


def build_preview(
    file: PlanFile,
    *,
    text: str = "",
    warnings: Iterable[str] = (),
    changes: Mapping[str, str] | None = None,
) -> list[PreviewRow]:
    """Return the rows of a plan in the order of its file, with its parts below each task.

    `changes` says what an import does to a task, by ref.
    """
    changes = changes or {}
    lines = text.split("\n")
    is_done = {task.ref for task in file.done}
    open_ = {task.ref for task in file.tasks}
    tasks = sorted((*file.tasks, *file.done), key=lambda task: task.origin.place)
    spare = MOST_ROWS - len(open_)
    kept_done = {task.ref for task in tasks if task.ref in is_done}
    if len(kept_done) > spare:
        kept_done = {task.ref for task in [each for each in tasks if each.ref in is_done][:spare]}
    tasks = [task for task in tasks if task.ref in open_ or task.ref in kept_done]
    names = {task.ref: name_of(task) for task in tasks}
    at_lines = group_by_line(warnings, most=max(spare - len(kept_done), 100))
    rows = []
    for task, level in walk(tasks):
        line = task.origin.line
        verify = task.payload.get("verify", {})
        needs = [need for need in task.needs if need in names][:MOST_SHOWN]
        others = [need for need in task.needs if need not in names][:MOST_SHOWN]
        rows.append(
            PreviewRow(
                ref=task.ref,
                name=names[task.ref],
                title=shorten_title(task.title or task.type),
                level=level,
                line=line,
                source=source_line(lines, line),
                change=DONE if task.ref in is_done else changes.get(task.ref, ""),
                agent=task.agent,
                after=(*(names[need] for need in needs), *others),
                needs=tuple(needs),
                criteria=tuple(
                    shorten_title(str(check))
                    for check in task.payload.get("done", [])[:MOST_CRITERIA]
                ),
                warnings=tuple(at_lines.pop(line, ())) if line else (),
                command=verify.get("command") or verify.get("proposed_command", ""),
                is_proposed=not verify.get("command") and "proposed_command" in verify,
            )
        )
    return insert_lines(rows, at_lines, lines)


def name_of(task: PlanTask) -> str:
    return task.origin.number or task.ref.rpartition(":")[2]


def walk(tasks: Sequence[PlanTask]) -> list[tuple[PlanTask, int]]:
    short = {task.ref.rpartition(":")[2]: task for task in tasks}
    parts: dict[str, list[PlanTask]] = {}
    roots = []
    for task in tasks:
        parent = task.payload.get("parent")
        if isinstance(parent, str) and parent in short and short[parent] is not task:
            parts.setdefault(short[parent].ref, []).append(task)
        else:
            roots.append(task)
    found: list[tuple[PlanTask, int]] = []
    waiting = [(task, 0) for task in reversed(roots)]
    while waiting:
        task, level = waiting.pop()
        found.append((task, level))
        waiting += [(part, level + 1) for part in reversed(parts.pop(task.ref, []))]
    # Parts of each other have no root.
    reached = {task.ref for task, _ in found}
    return found + [(task, 0) for task in tasks if task.ref not in reached]


def group_by_line(warnings: Iterable[str], *, most: int) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for warning in warnings:
        if match := AT_LINE.match(warning):
            line = int(match[1])
            if line in found or len(found) < most:
                found.setdefault(line, []).append(warning)
    return found


def list_general(warnings: Iterable[str]) -> list[str]:
    # The rows show only the warnings that name a line.
    return [warning for warning in warnings if not AT_LINE.match(warning)]


def source_line(lines: Sequence[str], line: int) -> str:
    return shorten_title(lines[line - 1].strip()) if 0 < line <= len(lines) else ""


def insert_lines(
    rows: Sequence[PreviewRow], at_lines: Mapping[int, list[str]], lines: Sequence[str]
) -> list[PreviewRow]:
    found: list[PreviewRow] = []
    rest = sorted(at_lines)
    for row in rows:
        while rest and row.line and rest[0] < row.line:
            found.append(describe_line(rest.pop(0), at_lines, lines))
        found.append(row)
    return found + [describe_line(line, at_lines, lines) for line in rest]


def describe_line(line: int, at_lines: Mapping[int, list[str]], lines: Sequence[str]) -> PreviewRow:
    source = source_line(lines, line)
    return PreviewRow(line=line, title=source, source=source, warnings=tuple(at_lines[line]))
