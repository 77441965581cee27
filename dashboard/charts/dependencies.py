"""Tasks of a plan and the needs between them (pure)."""

import re
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from uuid import UUID

from dashboard.wording.badges import task_badge
from ledger.states import TaskState

MET = (TaskState.DONE, TaskState.SKIPPED)
NUMBER = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True)
class TaskMark:
    """The columns of a task that a plan's charts need; a plan may have 500 tasks."""

    pk: UUID
    ref: str
    title: str
    state: str
    blocked_reason: str | None
    attempts: int
    attempt_limit: int
    run: int
    created_at: datetime
    agent: str
    version: int
    command: str | None  # found in prose and not confirmed yet, of an open task

    @property
    def key(self) -> str:
        return key_of(self.ref)

    @property
    def label(self) -> str:
        return f"{self.key}, {task_badge(self.state).label}: {self.title}"

    @property
    def tip(self) -> str:
        number = f"{self.attempts}/{self.attempt_limit}"
        state = task_badge(self.state).label.lower()
        return f"{self.key}, {state}|{self.title.replace('|', '/')} {number}"

    @property
    def icon(self) -> str:
        return task_badge(self.state).icon


@dataclass(frozen=True, slots=True)
class NeedLink:
    """A task's need for another task, which may be in another plan."""

    task: UUID
    need: UUID | None  # None: not imported yet
    ref: str
    state: str
    title: str


@lru_cache(maxsize=4096)
def natural_key(ref: str) -> tuple[tuple[int, str], ...]:
    """Return the sort key that puts task-2 before task-10.

    >>> sorted(["03-01:task-10", "03-01:task-2", "03-01:setup"], key=natural_key)
    ['03-01:setup', '03-01:task-2', '03-01:task-10']
    """
    return tuple((int(part), "") if part.isdigit() else (0, part) for part in NUMBER.split(ref))


def key_of(ref: str) -> str:
    """Return a task's ref without its plan's.

    >>> key_of("03-01:task-7")
    'task-7'
    """
    return ref.rpartition(":")[2]


def short_of(ref: str, *, plan: str) -> str:
    """Return a need's label in its plan's list: 7 for the plan's own task-7, else the whole ref.

    >>> short_of("03-01:task-7", plan="03-01"), short_of("02-05:task-1", plan="03-01")
    ('7', '02-05:task-1')
    """
    if ref.rpartition(":")[0] != plan:
        return ref
    return key_of(ref).removeprefix("task-")
