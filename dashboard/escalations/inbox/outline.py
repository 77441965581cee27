"""The groups of the inbox and the places of all its lines, cached while nothing changes."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from typing import Any
from uuid import UUID

from dashboard.escalations.inbox import selection as inbox_queries
from dashboard.escalations.inbox.selection import PAGE, Request
from dashboard.lists.query_box import ME
from dashboard.lists.shared_queries import hash_of
from ledger.database.optional_cache import get_or_compute_slow

LINES = 20  # lines shown in an open group
FIRST_LINES = 3  # lines shown in a closed group
MOST_LINES = 200  # lines shown in a whole group
ID_BYTES = 16


@dataclass(frozen=True, slots=True)
class Place:
    """An escalation in the list: its number from 1, its group, and its neighbors."""

    number: int
    key: str
    before: UUID | None
    after: UUID | None
    next: UUID | None  # the line to open next: in the same group, if there is another


@dataclass(frozen=True, slots=True)
class Window:
    """The lines that a page shows of a group, and how many it leaves out on each side."""

    ids: list[UUID]
    before: int = 0
    after: int = 0
    previous: UUID | None = None  # the hidden neighbors in the same group
    following: UUID | None = None


@dataclass(frozen=True, slots=True)
class Outline:
    """The groups of a page, and the order of the lines of all pages."""

    groups: list[dict[str, Any]]
    sizes: list[tuple[str, int]]  # the size of each group, by its key
    order: bytes  # the ids of all lines
    all: int  # the count without the filter
    counts: dict[str, int]
    assigned: dict[str, int]  # by the id of the assignee
    agents: list[tuple[str, int]]
    plans: list[tuple[str, int]]
    assignees: list[tuple[str, int]]
    snoozed: int  # the counts of the other lists
    closed: int

    @property
    def total(self) -> int:
        return len(self.order) // ID_BYTES

    @property
    def is_flat(self) -> bool:
        # Lines without groups are one group with an empty key.
        return [key for key, _ in self.sizes] == [""]

    @property
    def pages(self) -> int:
        return max(1, -(-(self.total if self.is_flat else len(self.sizes)) // PAGE))

    def id_at(self, index: int) -> UUID | None:
        start = index * ID_BYTES
        return UUID(bytes=self.order[start : start + ID_BYTES]) if 0 <= index < self.total else None

    def find_index(self, id: UUID) -> int | None:
        start = self.order.find(id.bytes)
        while start >= 0 and start % ID_BYTES:  # a match across two ids
            start = self.order.find(id.bytes, start + 1)
        return start // ID_BYTES if start >= 0 else None

    def spans(self) -> Iterator[tuple[str, int, int]]:
        """Yield the key of each group with the indexes where its lines begin and end."""
        ends = accumulate(count for _, count in self.sizes)
        for (key, count), end in zip(self.sizes, ends, strict=True):
            yield key, end - count, end

    def find_place(self, id: UUID) -> Place | None:
        """Return the place of a line, or None if it is not in the list."""
        index = self.find_index(id)
        if index is None:
            return None
        key, start, end = next(span for span in self.spans() if span[1] <= index < span[2])
        # The next line to open is of the same group, if the group has another one.
        if end - start > 1:
            following = index + 1 if index + 1 < end else start
        else:
            following = index + 1 if index + 1 < self.total else 0
        return Place(
            index + 1,
            key,
            before=self.id_at(index - 1),
            after=self.id_at(index + 1),
            next=self.id_at(following) if self.total > 1 else None,
        )

    def find_page(self, place: Place) -> int:
        keys = [key for key, _ in self.sizes]
        return (place.number - 1 if self.is_flat else keys.index(place.key)) // PAGE + 1

    def first_of(self, page: int) -> UUID | None:
        start = (page - 1) * PAGE
        if not self.is_flat:
            start = next((first for _, first, _ in list(self.spans())[start:]), self.total)
        return self.id_at(start)

    def list_shown(self, page: int, *, place: Place | None, whole: str) -> dict[str, Window]:
        if self.is_flat:
            return {"": Window(self.slice((page - 1) * PAGE, page * PAGE))}
        shown = {}
        for key, start, end in list(self.spans())[(page - 1) * PAGE : page * PAGE]:
            is_here = place is not None and place.key == key
            # An open group shows more lines than a closed one.
            most = MOST_LINES if key == whole else LINES if is_here else FIRST_LINES
            middle = place.number - 1 if place and is_here else start
            first = max(start, min(middle - most // 2, end - most))
            shown[key] = self.window(start, first, min(end, first + most), end)
        return shown

    def window(self, start: int, first: int, last: int, end: int) -> Window:
        return Window(
            self.slice(first, last),
            before=first - start,
            after=end - last,
            previous=self.id_at(first - 1) if first > start else None,
            following=self.id_at(last) if last < end else None,
        )

    def slice(self, start: int, end: int) -> list[UUID]:
        return [id for index in range(start, end) if (id := self.id_at(index))]


def read_outline(wanted: Request, *, changes: str, now: datetime) -> Outline:
    """Return the inbox that a query asks for."""
    # Many open escalations take a while to read, so the result is cached until `changes` is another
    # text. Its other counts, such as waiting tasks, may be as old as any cached count.
    project = wanted.project.pk if wanted.project else None
    queries = (wanted.query, *wanted.query.alternatives)
    names = [name for each in queries for name in (*each.assignee.wanted, *each.assignee.unwanted)]
    viewer = wanted.viewer.pk if ME in names else None
    shape = (wanted.query.text, viewer, wanted.group, wanted.sort, wanted.page)
    key = hash_of((project, shape, changes))
    row = get_or_compute_slow(f"inbox:{key}", lambda: inbox_queries.fetch_groups(wanted, now=now))
    return Outline(
        groups=json.loads(row["groups"]),
        sizes=[(key, count) for key, count in json.loads(row["sizes"])],
        order=bytes(row["order"]),
        all=row["all"],
        counts=json.loads(row["counts"]),
        assigned=json.loads(row["assigned"]),
        agents=read_pairs(row["agents"]),
        plans=read_pairs(row["plans"]),
        assignees=read_pairs(row["assignees"]),
        snoozed=row["snoozed"],
        closed=row["closed"],
    )


def read_pairs(text: str) -> list[tuple[str, int]]:
    return [(str(value), int(count)) for value, count in json.loads(text)]
