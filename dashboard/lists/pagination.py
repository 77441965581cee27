"""Keyset pagination of a list by its ids: no page is slower than the first.

Short lists, of people and tokens, have numbered pages in any order.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar
from uuid import UUID

from django.db.models import Model, QuerySet
from django.http import QueryDict

from dashboard.form_values import read_whole_number

PAGE = 40
MOST_PAGES = 10_000
FIRST = UUID(int=0)  # before all ids

T = TypeVar("T")
S = TypeVar("S")
M = TypeVar("M", bound=Model)


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of a list, and the ids next to which its newer and older neighbors start."""

    rows: list[T]
    newer: UUID | None
    older: UUID | None

    def map(self, change: Callable[[list[T]], list[S]]) -> "Page[S]":
        return Page(change(self.rows), self.newer, self.older)


@dataclass(frozen=True, slots=True)
class NumberedPage(Generic[T]):
    """A page of a short list by its number, which the parameter `name` of its address has."""

    rows: list[T]
    number: int
    has_more: bool
    given: QueryDict
    name: str

    @property
    def previous(self) -> str:
        return self.build_query(self.number - 1) if self.number > 1 else ""

    @property
    def next(self) -> str:
        return self.build_query(self.number + 1) if self.has_more else ""

    def build_query(self, number: int) -> str:
        given = self.given.copy()
        given[self.name] = str(number)
        return f"?{given.urlencode()}"


def read_numbered(rows: QuerySet[M], given: QueryDict, name: str, *, size: int) -> NumberedPage[M]:
    """Return the query's page in an address, or else the first page."""
    return fetch_numbered(lambda start, end: list(rows[start:end]), given, name, size=size)


def fetch_numbered(
    fetch: Callable[[int, int], list[T]], given: QueryDict, name: str, *, size: int
) -> NumberedPage[T]:
    number = min(max(1, read_whole_number(given.get(name, "")) or 1), MOST_PAGES)
    found = fetch((number - 1) * size, number * size + 1)
    return NumberedPage(found[:size], number, len(found) > size, given, name)


class Fetch(Protocol):
    """A function that returns the rows next to one, as `slice_rows` orders and limits them."""

    def __call__(self, *, before: UUID | None, after: UUID | None) -> list[Any]: ...


def read_page(fetch: Fetch, *, before: UUID | None, after: UUID | None) -> Page[Any]:
    """Return the rows further down than `before`, or further up than `after`, newest first."""
    found = fetch(before=before, after=after)
    if after and len(found) <= PAGE:  # fewer rows than a page are further up: show the first page
        after, found = None, fetch(before=None, after=None)
    more = len(found) > PAGE
    found = found[:PAGE][::-1] if after else found[:PAGE]
    if not found:
        return Page([], None, None)
    newer = found[0].pk if before or (after and more) else None
    older = found[-1].pk if after or more else None
    return Page(found, newer, older)


def read_oldest_page(fetch: Fetch, *, before: UUID | None, after: UUID | None) -> Page[Any]:
    """Return a page of a list whose oldest rows come first."""

    # `before`, `after`, and the page's ids mean further down or further up, as in `read_page`.
    def fetch_reversed(*, before: UUID | None, after: UUID | None) -> list[Any]:
        return fetch(before=after, after=None if after else before or FIRST)

    return read_page(fetch_reversed, before=before, after=after)


def slice_rows(rows: QuerySet[Any], *, before: UUID | None, after: UUID | None) -> QuerySet[Any]:
    """Return the rows next to one, the nearest first, and one more than a page holds."""
    if after:
        return rows.filter(id__gt=after).order_by("id")[: PAGE + 1]
    rows = rows.filter(id__lt=before) if before else rows
    return rows.order_by("-id")[: PAGE + 1]
