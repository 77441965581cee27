"""A page of a list, newest first, by keyset: no page is slower than the first."""

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
    """A stretch of a list, newest first, and whether there is more on either side."""

    rows: list[T]
    newer: UUID | None
    older: UUID | None

    def told(self, tell: Callable[[list[T]], list[S]]) -> "Page[S]":
        """The same stretch with other words for its rows."""
        return Page(tell(self.rows), self.newer, self.older)


def page(rows: QuerySet[Any], *, before: UUID | None, after: UUID | None) -> Page[Any]:
    """The rows next to a place: older ones than `before`, or newer ones than `after`."""
    found = stretch(rows, before=before, after=after)
    if after and len(found) <= PAGE:  # less than a whole page is newer: that is the first page
        after, found = None, stretch(rows, before=None, after=None)
    more = len(found) > PAGE
    found = found[-PAGE:] if after else found[:PAGE]
    if not found:
        return Page([], None, None)
    newer = found[0].pk if before or (after and more) else None
    older = found[-1].pk if after or more else None
    return Page(found, newer, older)


def stretch(rows: QuerySet[Any], *, before: UUID | None, after: UUID | None) -> list[Any]:
    """One more than a page holds, newest first."""
    if after:
        return list(rows.filter(id__gt=after).order_by("id")[: PAGE + 1])[::-1]
    rows = rows.filter(id__lt=before) if before else rows
    return list(rows.order_by("-id")[: PAGE + 1])
