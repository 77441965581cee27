"""Keyset pagination of a list, newest first: no page is slower than the first."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar
from uuid import UUID

from django.db.models import QuerySet

PAGE = 40

T = TypeVar("T")
S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of a list, and the ids next to which its newer and older neighbors start."""

    rows: list[T]
    newer: UUID | None
    older: UUID | None

    def map(self, change: Callable[[list[T]], list[S]]) -> "Page[S]":
        """Return the page with its rows replaced."""
        return Page(change(self.rows), self.newer, self.older)


class Fetch(Protocol):
    """A function that returns the rows next to one, as `slice_rows` orders and limits them."""

    def __call__(self, *, before: UUID | None, after: UUID | None) -> list[Any]: ...


def read_page(fetch: Fetch, *, before: UUID | None, after: UUID | None) -> Page[Any]:
    """Return the page of rows older than `before`, or newer than `after`."""
    found = fetch(before=before, after=after)
    if after and len(found) <= PAGE:  # fewer rows than a page are newer: show the first page
        after, found = None, fetch(before=None, after=None)
    more = len(found) > PAGE
    found = found[:PAGE][::-1] if after else found[:PAGE]
    if not found:
        return Page([], None, None)
    newer = found[0].pk if before or (after and more) else None
    older = found[-1].pk if after or more else None
    return Page(found, newer, older)


def slice_rows(rows: QuerySet[Any], *, before: UUID | None, after: UUID | None) -> QuerySet[Any]:
    """Return the rows next to one, the next one first, and one more than a page holds."""
    if after:
        return rows.filter(id__gt=after).order_by("id")[: PAGE + 1]
    rows = rows.filter(id__lt=before) if before else rows
    return rows.order_by("-id")[: PAGE + 1]
