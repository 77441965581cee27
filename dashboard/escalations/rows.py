"""The lists beside the inbox: snoozed and answered escalations, and their tabs."""

from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from django.http import QueryDict
from django.urls import reverse

from dashboard.date_range import DateRange, find_dates
from dashboard.escalations import queries
from dashboard.escalations.inbox import filters
from dashboard.escalations.inbox.filters import InboxQuery
from dashboard.escalations.inbox.selection import narrow
from dashboard.escalations.outcome import AnswerOutcome, describe_outcome
from dashboard.escalations.queries import ListCounts
from dashboard.frame.rendering import Visit
from dashboard.lists.pagination import Page
from dashboard.lists.query_box import as_id
from dashboard.lists.sorting import TimeOrder, read_time_order
from dashboard.wording.formatting import capped
from retries.models import Escalation

ANSWERED, SNOOZED = "answered", "snoozed"
ORDERS = {ANSWERED: ("Newest", "Oldest"), SNOOZED: ("Next due", "Last due")}
# the labels of the links further up and further down, in a list's first order
PAGE_LABELS = {ANSWERED: ("Newer", "Older"), SNOOZED: ("Earlier", "Later")}


@dataclass(frozen=True, slots=True)
class EscalationRow:
    row: Escalation
    current: bool
    key: str  # J opens the row after the current one, K the row before
    outcome: AnswerOutcome | None  # the outcome of a closed escalation


@dataclass(frozen=True, slots=True)
class Tab:
    """One of the lists, with the number of its rows."""

    label: str
    url: str
    number: str
    current: bool


@dataclass(frozen=True, slots=True)
class PageLink:
    """A link to a page of a list; it has no query where there is none."""

    query: str
    key: str
    label: str


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of the snoozed or the answered escalations; empty where the inbox is shown."""

    state: str
    box: InboxQuery
    entries: list[EscalationRow]
    page: Page[Escalation]
    order: TimeOrder
    counts: ListCounts
    params: QueryDict
    query: str  # the query string of a link to a row

    @property
    def dates(self) -> DateRange:
        return find_dates("opened", self.box.opened)

    @property
    def links(self) -> tuple[PageLink, PageLink]:
        labels = PAGE_LABELS[self.state]
        up, down = labels[::-1] if self.order.is_reversed else labels
        return (
            PageLink(self.neighbor_query("after", self.page.newer), "[", up),
            PageLink(self.neighbor_query("before", self.page.older), "]", down),
        )

    def neighbor_query(self, side: str, place: UUID | None) -> str:
        if not place:
            return ""
        sort = {"sort": self.order.sort} if self.order.sort else {}
        return build_query(self.params, state=self.state, **sort, **{side: str(place)})


def build_query(params: QueryDict, **more: str) -> str:
    params = params.copy()
    params.update(more)
    return f"?{params.urlencode()}" if params else ""


def read_state(visit: Visit) -> str:
    """Return the list in the address: snoozed, answered, or empty for the inbox."""
    # An unknown state means the inbox.
    state = visit.request.GET.get("state", "")
    return state if state in (ANSWERED, SNOOZED) else ""


def read_listing(visit: Visit, state: str, current: UUID | None) -> Listing:
    given = visit.request.GET
    box = filters.parse(given.get("q", "") if state else "")
    order = read_time_order(given, *ORDERS[state or ANSWERED])
    page: Page[Escalation] = Page([], newer=None, older=None)
    counts = ListCounts()
    if state:
        page, counts = read_rows(visit, state, box, order)
    params = visit.scope.params.copy()
    if box.text:
        params["q"] = box.text
    query = params.copy()
    for name in ("state", "sort", "before", "after"):
        if state and given.get(name):
            query[name] = given[name]
    # Without a current row, the first one is shown.
    shown = build_rows(page.rows, current or next((row.pk for row in page.rows), None))
    link = f"?{query.urlencode()}" if query else ""
    return Listing(state, box, shown, page, order, counts, params, link)


def read_rows(
    visit: Visit, state: str, box: InboxQuery, order: TimeOrder
) -> tuple[Page[Escalation], ListCounts]:
    given, project, now = visit.request.GET, visit.scope.project, visit.now
    before, after = (as_id(given.get(side, "")) for side in ("before", "after"))
    viewer: Any = visit.request.user
    chosen = partial(narrow, query=box, project=project, now=now, viewer=viewer)
    if state == ANSWERED:
        rows = queries.closed()
        page = queries.list_closed(
            project,
            narrow=chosen if box.text else None,
            is_reversed=order.is_reversed,
            before=before,
            after=after,
        )
    else:
        rows = Escalation.objects.snoozed(now)
        page = queries.list_snoozed(
            project,
            narrow=chosen,
            now=now,
            is_reversed=order.is_reversed,
            before=before,
            after=after,
        )
    found = chosen(rows) if box.text else None
    return page, queries.count_lists(project, now=now, found=found)


def build_tabs(visit: Visit, state: str, *, snoozed: int, answered: int) -> list[Tab]:
    page, params = reverse("dashboard:escalations"), visit.scope.params
    numbers = (
        ("Open", "", visit.shell.needs_you_number),
        ("Snoozed", SNOOZED, capped(snoozed)),
        ("Answered", ANSWERED, capped(answered)),
    )
    return [
        Tab(
            label,
            page + (build_query(params, state=name) if name else build_query(params)),
            number,
            name == state,
        )
        for label, name, number in numbers
    ]


def build_rows(escalations: list[Escalation], current: UUID | None) -> list[EscalationRow]:
    ids = [each.pk for each in escalations]
    at = ids.index(current) if current in ids else None
    keys = {} if at is None else {at - 1: "k", at + 1: "j"}
    aftermaths = queries.read_aftermaths(escalations)
    return [
        EscalationRow(
            each,
            current=place == at,
            key=keys.get(place, ""),
            outcome=None if each.is_open else describe_outcome(each, aftermaths.get(each.pk)),
        )
        for place, each in enumerate(escalations)
    ]
