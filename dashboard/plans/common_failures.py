"""Group the failures of a plan's tasks by their cause (pure)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from dashboard.charts.dependencies import key_of, natural_key
from dashboard.charts.sparklines import Bars, bars
from dashboard.deadletters.causes import CAUSE_LENGTH, find_cause
from dashboard.wording.formatting import counted
from ledger.values.text import truncate

CAUSES_SHOWN = 5
TASKS_NAMED = 3
BINS, BARS_TALL = 12, 14


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """A failure of a task, with the id and template of its failure pattern."""

    task: UUID
    type: str
    message: str
    at: datetime
    pattern: UUID | None = None
    template: str | None = None

    @property
    def cause(self) -> str:
        return truncate(self.template, CAUSE_LENGTH) if self.template else find_cause(self.message)


@dataclass(frozen=True, slots=True)
class CommonFailure:
    """Failures with the same message after removing numbers, paths and names."""

    cause: str
    count: int
    types: str
    keys: str
    bars: Bars
    pattern: UUID | None


def group_failures(failures: Sequence[TaskFailure], refs: dict[UUID, str]) -> list[CommonFailure]:
    # The bars of all causes cover the time of all failures.
    groups: dict[str, list[TaskFailure]] = {}
    for failure in failures:
        groups.setdefault(failure.cause, []).append(failure)
    if not groups:
        return []
    start = failures[0].at
    length = max((failures[-1].at - start).total_seconds(), 1.0)
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    return [
        describe_group(cause, group, refs, start, length) for cause, group in ordered[:CAUSES_SHOWN]
    ]


def describe_group(
    cause: str, group: list[TaskFailure], refs: dict[UUID, str], start: datetime, length: float
) -> CommonFailure:
    bins = [0] * BINS
    for failure in group:
        bins[min(int(BINS * (failure.at - start).total_seconds() / length), BINS - 1)] += 1
    tasks = sorted({refs[each.task] for each in group if each.task in refs}, key=natural_key)
    keys = ", ".join(key_of(ref) for ref in tasks[:TASKS_NAMED])
    if len(tasks) > TASKS_NAMED:
        keys += f" and {counted(len(tasks) - TASKS_NAMED, 'other')}"
    types = ", ".join(sorted({failure.type for failure in group}))
    drawn = bars(bins, [0] * BINS, tall=BARS_TALL)
    return CommonFailure(cause, len(group), types, keys, drawn, group[-1].pattern)


def count_identical(groups: Sequence[CommonFailure]) -> int:
    """Return the number of failures that share their cause with another one."""
    return sum(group.count for group in groups if group.count > 1)
