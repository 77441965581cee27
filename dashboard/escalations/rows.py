"""The left side of the inbox: its lines, the keys that lead from one to the next, its links."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.http import HttpRequest

from dashboard import query_box
from dashboard.escalations import outcome, queries
from dashboard.escalations.outcome import Verdict
from dashboard.navigation import Shell
from retries.models import Escalation

ANSWERED = "answered"
LONG = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Listing:
    """Open ones with the last answers below them, or all answered ones."""

    shell: Shell
    answered: bool
    answered_count: int
    page: queries.Page
    recent: list[Escalation]
    query: str  # what a link to a line carries

    @property
    def open_query(self) -> str:
        return self.shell.scope.query

    @property
    def answered_query(self) -> str:
        return self.with_query(state=ANSWERED)

    @property
    def other_query(self) -> str:
        """The query of the list that is not shown."""
        return self.open_query if self.answered else self.answered_query

    @property
    def newer_query(self) -> str:
        return self.next_to("after", self.page.newer)

    @property
    def older_query(self) -> str:
        return self.next_to("before", self.page.older)

    def next_open(self, *, but: Escalation) -> Escalation | None:
        """The longest waiting one beside `but`."""
        first = None if self.answered or self.page.older else next(iter(self.page.lines), None)
        if first and first.pk != but.pk:
            return first
        return queries.next_open(self.shell.scope.project, but=but.pk)

    def next_to(self, side: str, place: UUID | None) -> str:
        state = {"state": ANSWERED} if self.answered else {}
        return self.with_query(**state, **{side: str(place)}) if place else ""

    def with_query(self, **more: str) -> str:
        params = self.shell.scope.params
        params.update(more)
        return f"?{params.urlencode()}"


def listed(request: HttpRequest, shell: Shell) -> Listing:
    """The list that the address asks for."""
    is_answered = request.GET.get("state") == ANSWERED
    found = queries.answered_page if is_answered else queries.open_page
    before, after = (query_box.as_id(request.GET.get(side, "")) for side in ("before", "after"))
    project, here = shell.scope.project, shell.here.urlencode()
    return Listing(
        shell=shell,
        answered=is_answered,
        answered_count=queries.answered_count(project),
        page=found(project, before=before, after=after),
        recent=[] if is_answered else queries.last_answered(project),
        query=f"?{here}" if here else "",
    )


@dataclass(frozen=True, slots=True)
class Line:
    """An escalation in the list."""

    row: Escalation
    current: bool
    key: str  # that opens it: J for the one after the current one, K for the one before
    verdict: Verdict | None  # once it is closed
    waits_long: bool


def lined_up(
    listing: Listing, current: Escalation | None, *, now: datetime
) -> tuple[list[Line], list[Line]]:
    """The lines of the page and of the last answers; neighbours of the current one have keys."""
    rows = [*listing.page.lines, *listing.recent]
    ids = [row.pk for row in rows]
    at = ids.index(current.pk) if current and current.pk in ids else None
    keys = {} if at is None else {at - 1: "k", at + 1: "j"}
    since = queries.since(rows)
    lines = [
        Line(
            row,
            current=place == at,
            key=keys.get(place, ""),
            verdict=None if row.is_open else outcome.verdict(row, since.get(row.pk)),
            waits_long=now - row.opened_at > LONG,
        )
        for place, row in enumerate(rows)
    ]
    return lines[: len(listing.page.lines)], lines[len(listing.page.lines) :]
