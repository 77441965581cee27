"""The scope of a rendering, and how its queries read tasks."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any
from uuid import UUID

from ledger.models import Plan, Task
from ledger.models.task import TaskQuerySet
from retries.tasks.labels import TaskName

CHUNK_SIZE = 500
NAME_FIELDS = ("id", "ref", "title", "type")


@dataclass(frozen=True, slots=True)
class RenderingScope:
    """The scope of a rendering: a project, or one of its plans."""

    project_id: UUID
    plan: Plan | None = None

    @property
    def tasks(self) -> TaskQuerySet:
        # The tasks of earlier runs are included.
        found = Task.objects.filter(project_id=self.project_id)
        return found.filter(plan=self.plan) if self.plan else found

    @property
    def current(self) -> TaskQuerySet:
        return self.tasks.filter(replaced_by=None)


def name_task(task: Mapping[str, Any]) -> TaskName:
    return TaskName(task["id"], task["ref"], task["title"], task["type"])


def split_chunks(rows: Iterable[Any]) -> Iterator[list[Any]]:
    left = iter(rows)
    while chunk := list(islice(left, CHUNK_SIZE)):
        yield chunk
