"""Keyset pagination of a list, newest first: no page is slower than the first."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
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


def read_page(rows: QuerySet[Any], *, before: UUID | None, after: UUID | None) -> Page[Any]:
    """Return the page of rows older than `before`, or newer than `after`."""
    found = read_slice(rows, before=before, after=after)
    if after and len(found) <= PAGE:  # fewer rows than a page are newer: show the first page
        after, found = None, read_slice(rows, before=None, after=None)
    more = len(found) > PAGE
    found = found[-PAGE:] if after else found[:PAGE]
    if not found:
        return Page([], None, None)
    newer = found[0].pk if before or (after and more) else None
    older = found[-1].pk if after or more else None
    return Page(found, newer, older)


def read_slice(rows: QuerySet[Any], *, before: UUID | None, after: UUID | None) -> list[Any]:
    """Return one row more than a page holds, newest first."""
    if after:
        return list(rows.filter(id__gt=after).order_by("id")[: PAGE + 1])[::-1]
    rows = rows.filter(id__lt=before) if before else rows
    return list(rows.order_by("-id")[: PAGE + 1])
