"""The list of the inbox: its rows, the keys to the neighbors of the shown one, and its links."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from dashboard.escalations import queries
from dashboard.escalations.outcome import AnswerOutcome, describe_outcome
from dashboard.navigation import Scope
from dashboard.pagination import Page
from dashboard.query_box import as_id
from dashboard.rendering import Visit
from retries.models import Escalation

ANSWERED = "answered"
LONG_WAIT = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Listing:
    """The open escalations with the last closed ones, or all closed ones."""

    scope: Scope
    answered: bool
    answered_count: int
    page: Page[Escalation]
    recent: list[Escalation]
    query: str  # of a link to a row

    @property
    def open_query(self) -> str:
        return self.scope.query

    @property
    def answered_query(self) -> str:
        return self.build_query(state=ANSWERED)

    @property
    def other_query(self) -> str:
        """The query of the list that is not shown."""
        return self.open_query if self.answered else self.answered_query

    @property
    def newer_query(self) -> str:
        return self.neighbor_query("after", self.page.newer)

    @property
    def older_query(self) -> str:
        return self.neighbor_query("before", self.page.older)

    def find_next_open(self, *, but: Escalation) -> Escalation | None:
        """Return the oldest open escalation other than `but`."""
        first = None if self.answered or self.page.older else next(iter(self.page.rows), None)
        if first and first.pk != but.pk:
            return first
        return queries.find_oldest_open(self.scope.project, but=but.pk)

    def neighbor_query(self, side: str, place: UUID | None) -> str:
        """Return the query of the page before or after, or an empty string without one."""
        state = {"state": ANSWERED} if self.answered else {}
        return self.build_query(**state, **{side: str(place)}) if place else ""

    def build_query(self, **more: str) -> str:
        params = self.scope.params
        params.update(more)
        return f"?{params.urlencode()}"


def read_listing(visit: Visit) -> Listing:
    """Return the list that the address asks for."""
    params, project, here = visit.request.GET, visit.scope.project, visit.shell.here.urlencode()
    answered = params.get("state") == ANSWERED
    before, after = (as_id(params.get(side, "")) for side in ("before", "after"))
    read_rows = queries.list_closed if answered else queries.list_open
    return Listing(
        scope=visit.scope,
        answered=answered,
        answered_count=queries.count_closed(project),
        page=read_rows(project, before=before, after=after),
        recent=[] if answered else queries.list_recently_closed(project),
        query=f"?{here}" if here else "",
    )


@dataclass(frozen=True, slots=True)
class EscalationRow:
    row: Escalation
    current: bool
    key: str  # J opens the row after the current one, K the row before
    outcome: AnswerOutcome | None  # of a closed one
    waits_long: bool


def build_rows(
    listing: Listing, current: Escalation | None, *, now: datetime
) -> tuple[list[EscalationRow], list[EscalationRow]]:
    """Return the rows of the page, and those of the last closed escalations."""
    escalations = [*listing.page.rows, *listing.recent]
    ids = [each.pk for each in escalations]
    at = ids.index(current.pk) if current and current.pk in ids else None
    keys = {} if at is None else {at - 1: "k", at + 1: "j"}
    aftermaths = queries.read_aftermaths(escalations)
    rows = [
        EscalationRow(
            each,
            current=place == at,
            key=keys.get(place, ""),
            outcome=None if each.is_open else describe_outcome(each, aftermaths.get(each.pk)),
            waits_long=now - each.opened_at > LONG_WAIT,
        )
        for place, each in enumerate(escalations)
    ]
    return rows[: len(listing.page.rows)], rows[len(listing.page.rows) :]
