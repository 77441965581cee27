"""The order of a plan's tasks (pure): which can run side by side, and what stands in whose way."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from dashboard.badges import task_badge
from ledger.states import BlockedReason, TaskState

MET = (TaskState.DONE, TaskState.SKIPPED)
NUMBER = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True)
class Mark:
    """As much of a task as the pictures of its plan need: one may have 500."""

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
class Link:
    """That one task needs another, which may stand in another plan."""

    task: UUID
    need: UUID | None  # None: nobody has imported it
    ref: str
    state: str
    title: str


def natural(ref: str) -> list[tuple[int, str]]:
    """The key that sorts task-2 before task-10.

    >>> sorted(["03-01:task-10", "03-01:task-2", "03-01:setup"], key=natural)
    ['03-01:setup', '03-01:task-2', '03-01:task-10']
    """
    return [(int(part), "") if part.isdigit() else (0, part) for part in NUMBER.split(ref)]


def key_of(ref: str) -> str:
    """What a task is called within its plan.

    >>> key_of("03-01:task-7")
    'task-7'
    """
    return ref.rpartition(":")[2]


def short_of(ref: str, *, plan: str) -> str:
    """What a need is called in a line of the plan: 7 for its own task-7, else the whole ref.

    >>> short_of("03-01:task-7", plan="03-01"), short_of("02-05:task-1", plan="03-01")
    ('7', '02-05:task-1')
    """
    if ref.rpartition(":")[0] != plan:
        return ref
    return key_of(ref).removeprefix("task-")


def waves(ids: Sequence[UUID], links: Iterable[Link]) -> dict[UUID, int]:
    """The wave of each task: one more than the last wave of what it needs, from 1.

    What is needed from another plan counts nothing.
    """
    within = set(ids)
    needs: dict[UUID, set[UUID]] = {id: set() for id in ids}
    for link in links:
        if link.task in within and link.need and link.need in within:
            needs[link.task].add(link.need)
    found: dict[UUID, int] = {}
    left, wave = list(ids), 0
    while left:
        wave += 1
        # only what is already placed counts; without progress the rest stands in one wave
        ready = [id for id in left if needs[id] <= found.keys()] or left
        found |= dict.fromkeys(ready, wave)
        left = [id for id in left if id not in found]
    return found


def in_the_way(tasks: Iterable[Any], links: Iterable[Link]) -> dict[UUID, list[Link]]:
    """What really holds a task that waits for others up: followed up to what does not wait for
    another one itself, such as the task that failed at the head of a chain."""
    waiting = {task.pk for task in tasks if task.blocked_reason == BlockedReason.DEPENDENCY}
    needs: dict[UUID, list[Link]] = {}
    for link in links:
        if link.state not in MET:
            needs.setdefault(link.task, []).append(link)
    return {id: roots(id, waiting, needs) for id in waiting}


def roots(start: UUID, waiting: set[UUID], needs: dict[UUID, list[Link]]) -> list[Link]:
    found: dict[UUID | str, Link] = {}
    seen, todo = {start}, [start]
    while todo:
        for link in needs.get(todo.pop(), []):
            if link.need is None or link.need not in waiting:
                found.setdefault(link.need or link.ref, link)
            elif link.need not in seen:
                seen.add(link.need)
                todo.append(link.need)
    return sorted(found.values(), key=lambda link: natural(link.ref))
