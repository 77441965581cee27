"""Sort a list by a column with keyset pages: next to a row's value, then newest first.

A list without a column is in the order of its ids, newest first. A column that no index serves is
offered for lists of at most SORTABLE rows. A log is sorted by time, in either direction.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import F, Q, QuerySet, Subquery

from dashboard.lists import pagination

SORTABLE = 10_000
REVERSED = "oldest"


@dataclass(frozen=True, slots=True)
class SortColumn:
    """A column that a list can be sorted by; a click asks for the largest or the first values."""

    value: Any
    largest_first: bool = False
    is_indexed: bool = False  # can sort a list of any length


def largest(value: Any, *, is_indexed: bool = False) -> SortColumn:
    """Return a column whose heading asks for the largest values first."""
    return SortColumn(value, largest_first=True, is_indexed=is_indexed)


BY_ID = largest(F("id"), is_indexed=True)


@dataclass(frozen=True, slots=True)
class Heading:
    """The heading of a column; `sort` is the order that a click on it asks for."""

    label: str
    css: str = ""
    sort: str = ""
    direction: str = ""  # ascending or descending, if the list has this order

    @property
    def icon(self) -> str:
        return {"ascending": "arrow-up", "descending": "arrow-down"}.get(self.direction, "")


@dataclass(frozen=True, slots=True)
class TimeOrder:
    """The labels of the two directions of a list by time; an address asks for the second one."""

    is_reversed: bool
    first: str
    second: str
    second_sort: str = REVERSED  # the value in an address for the second order

    @property
    def sort(self) -> str:
        # The first direction needs no name in the address.
        return self.second_sort if self.is_reversed else ""


Columns = Mapping[str, SortColumn]


def read_sort(name: str, columns: Columns, total: int | None) -> str:
    """Return the order in an address if a list of this length can have it, or an empty string."""
    column = columns.get(name.removeprefix("-"))
    if column is None or not (column.is_indexed or (total or 0) <= SORTABLE):
        return ""
    return name


def read_sort_of(name: str, columns: Columns, rows: QuerySet[Any]) -> str:
    """Return the order in an address if the list of these rows can have it, or an empty string."""
    # An order that no list can have needs no count.
    if not read_sort(name, columns, 0):
        return ""
    return read_sort(name, columns, rows.order_by()[: SORTABLE + 1].count())


def read_time_order(
    given: Mapping[str, str], first: str = "Newest", second: str = "Oldest"
) -> TimeOrder:
    return TimeOrder(given.get("sort") == REVERSED, first, second)


def build_headings(
    columns: Columns, labels: Mapping[str, str], sort: str, default: str = ""
) -> dict[str, Heading]:
    # `default` is the order of a list without one.
    by = sort or default
    headings = {}
    for name, column in columns.items():
        if name != by.removeprefix("-"):
            first = f"-{name}" if column.largest_first else name
            headings[name] = Heading(labels[name], sort="" if first == default else first)
            continue
        turned = name if by.startswith("-") else f"-{name}"
        direction = "descending" if by.startswith("-") else "ascending"
        headings[name] = Heading(
            labels[name], sort="" if turned == default else turned, direction=direction
        )
    return headings


def sort_rows(rows: QuerySet[Any], sort: str, columns: Columns) -> QuerySet[Any]:
    if not sort:
        return rows.order_by("-id")
    rows = rows.alias(sorted=columns[sort.removeprefix("-")].value)
    return rows.order_by("-sorted" if sort.startswith("-") else "sorted", "-id")


def slice_sorted(
    rows: QuerySet[Any],
    sort: str,
    columns: Columns,
    *,
    before: UUID | None,
    after: UUID | None,
    most: int | None = None,
) -> QuerySet[Any]:
    """Return the rows next to one in an order, the nearest first."""
    # `before` and `after` are as in a list of ids: the page of rows older than one, or newer.
    most = most or pagination.PAGE + 1
    backward = bool(after)
    descending = sort.startswith("-")
    ordered = sort_rows(rows, sort, columns)
    if before or after:
        ordered = ordered.filter(beyond(rows, sort, columns, after or before, backward=backward))
    if not sort:
        return ordered.order_by("id" if backward else "-id")[:most]
    by = "-sorted" if descending != backward else "sorted"
    return ordered.order_by(by, "id" if backward else "-id")[:most]


def beyond(
    rows: QuerySet[Any], sort: str, columns: Columns, place: UUID | None, *, backward: bool
) -> Q:
    """Return the condition that a row comes after the row `place`, or before it if backward."""
    # `sort_rows` has annotated the column as `sorted`.
    newer = Q(id__gt=place) if backward else Q(id__lt=place)
    if not sort:
        return newer
    column = columns[sort.removeprefix("-")].value
    own = rows.model._default_manager.filter(pk=place).values(value=column)
    value = Subquery(own[:1])
    further = "lt" if sort.startswith("-") != backward else "gt"
    # the first condition alone can use an index of the column
    return Q(**{f"sorted__{further}e": value}) & (
        Q(**{f"sorted__{further}": value}) | Q(sorted=value) & newer
    )
