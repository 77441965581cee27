"""How tasks, moments and texts stand in every rendering (pure)."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

NUMBERED = re.compile(r"task-(\d+)")


@dataclass(frozen=True, slots=True)
class Named:
    """A task by all that it can be called."""

    id: UUID
    ref: str | None
    title: str
    type: str

    @property
    def task_id(self) -> str:
        """`03-01:task-3`; of a task on its own its id: a title is neither unique nor one word."""
        return self.ref or str(self.id)

    @property
    def label(self) -> str:
        """What it is called within its plan.

        >>> Named(UUID(int=0), "03-01:task-3", "Mend", "code").label
        'Task 3'
        """
        if self.ref is None:
            return self.title or self.type
        last = self.ref.rpartition(":")[2]
        match = NUMBERED.fullmatch(last)
        return f"Task {match[1]}" if match else last

    @property
    def name(self) -> str:
        """With its title, which may begin with the label already.

        >>> Named(UUID(int=0), "03-01:task-3", "Create the class", "code").name
        'Task 3: Create the class'
        """
        title = one_line(self.title)
        if self.ref is None or not title:
            return one_line(self.label)
        return title if title.startswith(f"{self.label}:") else f"{self.label}: {title}"


def moment(at: datetime) -> str:
    """To the second, in UTC: 2026-01-26T14:30:00Z."""
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def one_line(text: str, most: int | None = None) -> str:
    """Program output is hostile text: it must not begin a line of its own."""
    return " ".join(text.split())[:most]
