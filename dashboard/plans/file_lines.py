"""Show what became of each line of a plan's file, and of the tasks that it no longer has."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from dashboard.charts.dependencies import TaskMark
from ledger.journal import Kind
from ledger.models import Event
from ledger.planfile.model import Became
from ledger.states import TaskState

SHOWN = 300
VERSIONS_SEARCHED = 100
LABELS = {
    Became.TASK: "became",
    Became.DONE: "done in the file",
    Became.STEP: "step of",
    Became.CHECK: "criterion of",
    Became.TEXT: "text of",
    Became.LEFT_OUT: "not imported",
}


@dataclass(frozen=True, slots=True)
class LineRow:
    """A line of the file, and the task that it became or belongs to."""

    line: int
    label: str
    text: str
    note: str
    task: TaskMark | None
    is_task: bool


@dataclass(frozen=True, slots=True)
class DroppedRow:
    """A task that the file no longer has, and who imported the version without it."""

    task: TaskMark
    by: str
    at: datetime | None
    was_aborted: bool


@dataclass(frozen=True, slots=True)
class FileAccount:
    """The lines of a plan's file, the first ones in `rows`, and what was dropped from it.

    `to_tick` tasks are done, and open in the file.
    """

    count: int
    to_tick: int
    rows: list[LineRow]
    dropped: list[DroppedRow]


def read_file(plan: Any, marks: Iterable[TaskMark]) -> FileAccount | None:
    """Return what became of the file's lines, or None for a plan whose file has no lines."""
    # `find_plan` has read the lines with the plan.
    lines = plan.file_lines
    if not lines:
        return None
    by_ref = {mark.ref: mark for mark in marks}
    rows = [build_row(line, by_ref) for line in lines[:SHOWN]]
    named = {line[2] for line in lines}
    missing = [mark for mark in by_ref.values() if mark.ref not in named]
    open_refs = {line[2] for line in lines if line[1] == Became.TASK}
    return FileAccount(
        len(lines),
        sum(mark.ref in open_refs and mark.state == TaskState.DONE for mark in by_ref.values()),
        rows,
        list_dropped(plan.pk, missing) if missing else [],
    )


def build_row(line: list[Any], by_ref: Mapping[str, TaskMark]) -> LineRow:
    number, became, ref, text, note = line
    return LineRow(
        number, LABELS[Became(became)], text, note, by_ref.get(ref), became == Became.TASK
    )


def list_dropped(plan_id: UUID, missing: Iterable[TaskMark]) -> list[DroppedRow]:
    """Return these tasks with the first version that named them as dropped."""
    events = Event.objects.filter(
        subject_type="plan",
        subject_id=plan_id,
        kind=Kind.PLAN_UPDATED,
        data__file__has_key="dropped",
    ).order_by("id")
    marks = {int(mark.ref.rpartition("-")[2]): mark for mark in missing}
    rows: dict[int, DroppedRow] = {}
    for event in events[:VERSIONS_SEARCHED]:
        by = event.actor_name or event.actor_type
        for how, numbers in event.data["file"]["dropped"].items():
            # The first version that named a task as dropped counts.
            for number in marks.keys() & {*numbers} - rows.keys():
                rows[number] = DroppedRow(marks[number], by, event.at, how == "aborted")
    unnamed = {number: DroppedRow(mark, "", None, False) for number, mark in marks.items()}
    return [*(unnamed | rows).values()]
