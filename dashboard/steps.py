"""Lead from one row's page to the rows before and after it in the list that it was opened from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Exists, QuerySet, Subquery
from django.urls import reverse

from dashboard.frame.navigation import here_of
from dashboard.frame.rendering import Steps, Visit, wants_part
from dashboard.lists.shared_queries import CountOf
from dashboard.lists.sorting import Columns, beyond, slice_sorted, sort_rows
from dashboard.wording.formatting import COUNT_CAP, capped
from ledger.models import Project

# a page's parameters that its neighbors' pages don't repeat
OWN = (
    *("ask", "open", "id", "timeline", "differences", "before", "after"),
    *("show", "state", "find", "at", "start", "batches", "make", "order", "page"),
)


@dataclass(frozen=True, slots=True)
class Beside:
    """A row's neighbors in a list; `place` counts from 1 and is 0 outside of the list."""

    previous: UUID | None
    next: UUID | None
    place: int
    total: int


NOWHERE = Beside(None, None, 0, 0)


def find_beside(rows: QuerySet[Any], id: UUID, sort: str, columns: Columns) -> Beside:
    ordered = sort_rows(rows, sort, columns)
    return read_beside(
        rows,
        id,
        earlier=ordered.filter(beyond(rows, sort, columns, id, backward=True)),
        previous=slice_sorted(rows, sort, columns, before=None, after=id, most=1),
        following=slice_sorted(rows, sort, columns, before=id, after=None, most=1),
    )


def read_beside(
    rows: QuerySet[Any],
    id: UUID,
    *,
    earlier: QuerySet[Any],
    previous: QuerySet[Any] | None = None,
    following: QuerySet[Any] | None = None,
) -> Beside:
    """Read the place of a row after the `earlier` ones, and its neighbors, in one statement."""
    # Places are counted up to a cap.
    wanted = {
        "here": Exists(rows.filter(pk=id)),
        "place": CountOf(earlier.order_by().values("pk")[:COUNT_CAP]),
        "total": CountOf(rows.order_by().values("pk")[:COUNT_CAP]),
    }
    for name, found in {"previous": previous, "following": following}.items():
        if found is not None:
            wanted[name] = Subquery(found.values("pk"))
    found_row = Project.objects.order_by().annotate(**wanted).values(*wanted)[0]
    return Beside(
        found_row.get("previous"),
        found_row.get("following"),
        found_row["place"] + 1 if found_row["here"] else 0,
        found_row["total"],
    )


def place_in(ids: Sequence[UUID], id: UUID) -> Beside:
    if id not in ids:
        return Beside(None, None, 0, len(ids))
    place = ids.index(id)
    following = ids[place + 1] if place + 1 < len(ids) else None
    return Beside(ids[place - 1] if place else None, following, place + 1, len(ids))


def build_steps(
    visit: Visit, beside: Beside | None, *, place: str, page: str, with_shift: bool = False
) -> Steps | None:
    """Return the links to the neighbors, which keep the filter of the list `place`."""
    # `with_shift` is for a page whose own rows J and K move over.
    if beside is None:
        return None
    params = here_of(visit.request)
    for name in OWN:
        params.pop(name, None)
    query = f"?{params.urlencode()}" if params else ""

    def link(id: UUID | None) -> str:
        return reverse(f"dashboard:{page}", args=[id]) + query if id else ""

    return Steps(
        where=f"{capped(beside.place)} of {capped(beside.total)}" if beside.place else "",
        filter=visit.request.GET.get("q", ""),
        list=reverse(f"dashboard:{place}") + query,
        previous=link(beside.previous),
        next=link(beside.next),
        with_shift=with_shift,
    )


def are_shown(visit: Visit) -> bool:
    # A poll leaves the head of the page as it is.
    return not wants_part(visit.request)
