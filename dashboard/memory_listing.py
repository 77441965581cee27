"""A list whose rows are chosen and sorted in memory.

The rows are few, and their orders need values that no column has: a record, a rate, or a group.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from dashboard import steps
from dashboard.frame.rendering import HtmxRequest, Visit, begin_visit
from dashboard.listing import Listing
from dashboard.lists.facets import Facet
from dashboard.lists.pagination import Page, read_page
from dashboard.lists.query_box import StateQuery, as_id
from dashboard.lists.sorting import read_sort
from dashboard.steps import Beside
from ledger.models import Project

B = TypeVar("B", bound=StateQuery)


@dataclass(frozen=True, slots=True)
class FoundRows:
    """The rows that a query finds, in the list's order."""

    every: list[Any]
    in_any_state: list[Any]  # as if the query named no state
    shown: list[Any]

    @property
    def ids(self) -> list[UUID]:
        return [row.pk for row in self.shown]


class MemoryListing(Listing[B]):
    def list_every(self, visit: Visit) -> list[Any]:
        """Return all rows of the visit's project, which have an id as `pk`."""
        raise NotImplementedError

    def fits(self, row: Any, query: B, *, now: datetime) -> bool:
        """Return whether a query finds a row, apart from its states."""
        raise NotImplementedError

    def fits_groups(self, row: Any, query: B, *, now: datetime) -> bool:
        groups: Any = query.groups
        return self.fits(row, query, now=now) and all(
            any(
                self.has_state(row, each) and self.fits_groups(row, each, now=now) for each in group
            )
            for group in groups
        )

    def states_of(self, row: Any) -> Collection[str]:
        raise NotImplementedError

    def list_values(self, row: Any) -> Iterable[Any]:
        """Return the values of a row in the export."""
        raise NotImplementedError

    def has_state(self, row: Any, query: B) -> bool:
        states, wanted = {*self.states_of(row)}, query.state.wanted
        is_wanted = not wanted or not states.isdisjoint(wanted)
        return is_wanted and states.isdisjoint(query.state.unwanted)

    def find_all(self, query: B, visit: Visit) -> FoundRows:
        every = self.list_every(visit)
        in_any_state = [row for row in every if self.fits_groups(row, query, now=visit.now)]
        shown = [row for row in in_any_state if self.has_state(row, query)]
        return FoundRows(every, in_any_state, self.sort(shown, self.read_order(visit)))

    def read_order(self, visit: Visit) -> str:
        return read_sort(self.asked_sort(visit), self.sorts, 0)

    def sort(self, rows: list[Any], by: str) -> list[Any]:
        """Return the rows in the order of a column; those without a value come last."""
        by = by or self.default_sort
        value = self.sorts[by.removeprefix("-")].value
        known = [row for row in rows if value(row) is not None]
        known.sort(key=value, reverse=by.startswith("-"))
        return known + [row for row in rows if value(row) is None]

    def count_rows(self, rows: Iterable[Any]) -> dict[str, int]:
        """Return the numbers of rows by the names of the states."""
        rows = list(rows)
        found = Counter(state for row in rows for state in self.states_of(row))
        return {name: found[name] for name in self.states} | {"all": len(rows)}

    def read_rows(self, query: B, visit: Visit) -> tuple[FoundRows, str, Page[Any]]:
        found = self.find_all(query, visit)
        given, fetch = visit.request.GET, partial(slice_listed, found.shown)
        before, after = (as_id(given.get(name, "")) for name in ("before", "after"))
        page = read_page(fetch, before=before, after=after)
        if not page.rows:  # the row that the page began after has become the last one
            page = read_page(fetch, before=None, after=None)
        return found, self.read_order(visit), page

    def find_total(self, counts: FoundRows, query: B) -> int:
        return len(counts.shown)

    def build_facets(self, counts: FoundRows, query: B) -> list[Facet]:
        return super().build_facets(self.count_rows(counts.in_any_state), query)

    def read_records(
        self, query: B, project: Project | None, request: HtmxRequest
    ) -> Iterable[Sequence[Any]]:
        found = self.find_all(query, begin_visit(request, current=self.current))
        return [list(self.list_values(row)) for row in found.shown]

    def find_beside(self, query: B, visit: Visit, id: UUID) -> Beside:
        return steps.place_in(self.find_all(query, visit).ids, id)


def slice_listed(rows: list[Any], *, before: UUID | None, after: UUID | None) -> list[Any]:
    """Return the rows next to one, the next one first, as `slice_rows` does."""
    ids = [row.pk for row in rows]
    if after:
        return rows[: ids.index(after)][::-1] if after in ids else []
    return rows[ids.index(before) + 1 :] if before in ids else rows
