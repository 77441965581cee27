"""Format the names of tasks, timestamps and texts for every rendering (pure)."""

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

NUMBERED = re.compile(r"task-(\d+)")
# JSON allows these characters in a string, but YAML does not, or ends a line at them.
NOT_PLAIN = {n: f"\\u{n:04x}" for n in (*range(0x7F, 0xA0), 0x2028, 0x2029, 0xFEFF)}


@dataclass(frozen=True, slots=True)
class TaskName:
    """The names of a task."""

    id: UUID
    ref: str | None
    title: str
    type: str

    @property
    def task_id(self) -> str:
        # A title is not unique, so a task without a ref has its id.
        return self.ref or str(self.id)

    @property
    def label(self) -> str:
        """Its name within its plan.

        >>> TaskName(UUID(int=0), "03-01:task-3", "Fix", "code").label
        'Task 3'
        """
        if self.ref is None:
            return self.title or self.type
        last = self.ref.rpartition(":")[2]
        match = NUMBERED.fullmatch(last)
        return f"Task {match[1]}" if match else last

    @property
    def name(self) -> str:
        """Its label and title; the title may already begin with the label.

        >>> TaskName(UUID(int=0), "03-01:task-3", "Create the class", "code").name
        'Task 3: Create the class'
        """
        title = one_line(self.title)
        if self.ref is None or not title:
            return one_line(self.label)
        return title if title.startswith(f"{self.label}:") else f"{self.label}: {title}"


def format_timestamp(at: datetime) -> str:
    """Format a time in UTC to the second, such as 2026-01-26T14:30:00Z."""
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def quote(text: str) -> str:
    # YAML and JSON both read a text in double quotes.
    return json.dumps(text, ensure_ascii=False).translate(NOT_PLAIN)


def one_line(text: str, most: int | None = None) -> str:
    # Program output must not start a line of its own.
    return " ".join(text.split())[:most]
