"""Read the rows of the Sessions list in one of its orders, and count them for its facets."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import (
    Case,
    CharField,
    Count,
    Exists,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
    When,
)
from django.db.models.functions import Coalesce, JSONObject, NullIf

from dashboard.lists.pagination import PAGE
from dashboard.lists.query_box import Values, as_id, has_value
from dashboard.lists.shared_queries import hash_of, match_any, match_values, of_project
from dashboard.sessions.filters import ATTEMPTS, STATES, SessionQuery
from dashboard.steps import Beside, read_beside
from ledger.database.optional_cache import get_or_compute_slow
from ledger.models import Attempt, Message, Project, Session
from ledger.models.session import TrackerName
from ledger.states import BatchOutcome

FACETS_SHOWN = 8


# ---- filters

STORED = Q(disable_task_tracking=True) | Q(tracker=TrackerName.NONE)


def state_case(now: datetime) -> Case:
    """Return the expression of the derived state, as `rows.derive_state` does."""
    return Case(
        When(last_outcome__in=(BatchOutcome.FAILED, BatchOutcome.LOST), then=Value("failed")),
        When(Q(running_count__gt=0) | Q(lock_until__gt=now), then=Value("processing")),
        When(pending_count__gt=0, then=Value("buffering")),
        When(STORED, then=Value("stored")),
        default=Value("up-to-date"),
        output_field=CharField(),
    )


LINKED = Message.objects.filter(attempt__isnull=False, session=OuterRef("pk"))


def is_linked(name: str) -> Q:
    """Return the condition that a session has messages of an attempt, or none."""
    return Q(~Exists(LINKED)) if name == "none" else Q(Exists(LINKED))


def match_task(values: Values) -> Q:
    """Return the condition that a session has messages of attempts of tasks with these refs."""

    def of_ref(ref: str) -> Q:
        attempts = Attempt.objects.filter(task__ref=ref)
        return Q(pk__in=Message.objects.filter(attempt__in=attempts).values("session"))

    return match_any(values, of_ref)


def filter_sessions(query: SessionQuery, project: Project | None, now: datetime) -> QuerySet[Any]:
    """Return the sessions that match a query, with their derived state."""
    rows = of_project(Session.objects.annotate(state=state_case(now)), project)
    rows = rows.filter(
        match_values(query.agent, "agent__name"),
        match_values(query.state, "state"),
        match_values(query.tracker, "tracker"),
        match_any(query.attempt, is_linked),
        match_task(query.task),
    )
    if query.older is not None:
        rows = rows.filter(last_message_at__lt=now - query.older)
    if query.newer is not None:
        rows = rows.filter(last_message_at__gte=now - query.newer)
    for word in query.words:
        rows = rows.filter(Q(title__icontains=word) | Q(external_id=word))
    found: QuerySet[Any] = rows.filter(id__in=query.ids) if query.ids else rows
    return found


# ---- rows


@dataclass(frozen=True, slots=True)
class ActivityPage:
    """A page of sessions and the cursors of its neighbors."""

    rows: list[Any]
    newer: str | None
    older: str | None


@dataclass(frozen=True, slots=True)
class SessionOrder:
    """An order of the list; rows with equal values follow each other by id."""

    name: str
    column: str
    descending: bool = True

    def sorted_from(self, *, first: bool) -> tuple[str, str]:
        """Return the columns to order by, from the first row or from the last."""
        sign = "-" if self.descending == first else ""
        return f"{sign}{self.column}", f"{sign}id"

    def beside(self, cursor: "Cursor", *, later: bool) -> Q:
        """Return the condition of a row's place relative to a cursor."""
        op = "lt" if self.descending == later else "gt"
        # the first condition alone can use the index
        return Q(**{f"{self.column}__{op}e": cursor.value}) & (
            Q(**{f"{self.column}__{op}": cursor.value}) | Q(**{f"id__{op}": cursor.id})
        )

    def cursor_of(self, row: Session) -> str:
        return str(Cursor(getattr(row, self.column), row.pk))


ORDER_COLUMNS = {"active": "last_message_at", "messages": "message_count"}


def read_order(text: str) -> SessionOrder:
    """Return the order in an address such as `messages` or `-messages`; most active first if none.

    A name alone begins with the most; a minus turns it around.
    """
    name = text.removeprefix("-")
    if name not in ORDER_COLUMNS:
        name, text = "active", ""
    return SessionOrder(name, ORDER_COLUMNS[name], descending=not text.startswith("-"))


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in an order of the list."""

    value: datetime | int
    id: UUID

    def __str__(self) -> str:
        value = self.value
        return f"{value if isinstance(value, int) else f'{value.timestamp():.6f}'}~{self.id}"


def read_cursor(text: str, order: SessionOrder) -> Cursor | None:
    """Return the cursor in an address, or None if it is not one of this order."""
    value, _, name = text.partition("~")
    id = as_id(name)
    if id is None:
        return None
    try:
        if order.name == "messages":
            return Cursor(min(int(value), 2**31 - 1), id)
        whole, _, rest = value.partition(".")
        at = datetime.fromtimestamp(int(whole)).astimezone() + timedelta(microseconds=int(rest))
        return Cursor(at, id)
    except (ValueError, OverflowError, OSError):
        return None


LAST_LINKED = LINKED.order_by("-order").values(
    linked=JSONObject(
        id="attempt",
        task_id="attempt__task",
        label=Coalesce(NullIf("attempt__task__ref", Value("")), "attempt__task__title"),
    )
)[:1]


def with_extras(rows: QuerySet[Any]) -> QuerySet[Any]:
    found = rows.select_related("agent", "project")
    return found.annotate(linked=Subquery(LAST_LINKED))  # type: ignore[no-any-return]


def list_sessions(
    query: SessionQuery,
    project: Project | None,
    order: SessionOrder,
    *,
    before: Cursor | None,
    after: Cursor | None,
    now: datetime,
) -> ActivityPage:
    """Return a page of sessions next to a cursor."""
    rows = with_extras(filter_sessions(query, project, now)).defer("metadata", "preferences")
    found: list[Any] = []
    if after:
        earlier = rows.filter(order.beside(after, later=False))
        found = list(earlier.order_by(*order.sorted_from(first=False))[: PAGE + 1])
    if len(found) <= PAGE:  # fewer rows than a page are before it: show the first page
        after = None
        later = rows.filter(order.beside(before, later=True)) if before else rows
        found = list(later.order_by(*order.sorted_from(first=True))[: PAGE + 1])
    more = len(found) > PAGE
    found = found[:PAGE][::-1] if after else found[:PAGE]
    if not found:
        return ActivityPage([], None, None)
    return ActivityPage(
        found,
        newer=order.cursor_of(found[0]) if before or (after and more) else None,
        older=order.cursor_of(found[-1]) if after or more else None,
    )


def find_beside_session(
    query: SessionQuery, project: Project | None, order: SessionOrder, row: Session, now: datetime
) -> Beside:
    """Find the neighbors of a session in the list."""
    rows, place = filter_sessions(query, project, now), cursor_at(row, order)
    earlier = rows.filter(order.beside(place, later=False))
    later = rows.filter(order.beside(place, later=True))
    return read_beside(
        rows,
        row.pk,
        earlier=earlier,
        previous=earlier.order_by(*order.sorted_from(first=False))[:1],
        following=later.order_by(*order.sorted_from(first=True))[:1],
    )


def cursor_at(row: Session, order: SessionOrder) -> Cursor:
    return Cursor(getattr(row, order.column), row.pk)


# ---- counts


@dataclass(frozen=True, slots=True)
class SessionCounts:
    """The number of matching sessions by state, agent, tracker and link, each for any value."""

    states: dict[str, int]
    agents: list[tuple[str, int]]
    trackers: list[tuple[str, int]]
    attempts: dict[str, int]

    @property
    def total(self) -> int:
        return sum(self.states.values())


def count_sessions(query: SessionQuery, project: Project | None, now: datetime) -> SessionCounts:
    """Count with one statement, then sum up by state, agent, tracker and link."""
    wanted = query.anything()

    def count() -> list[tuple[str, str, str, bool, int]]:
        rows = filter_sessions(wanted, project, now).order_by().annotate(linked=Exists(LINKED))
        groups = rows.values_list("state", "agent__name", "tracker", "linked")
        return list(groups.annotate(n=Count("*")))

    where = project.id if project else "all"
    groups = get_or_compute_slow(f"sessions:{where}:{hash_of(wanted)}", count)
    states, agents, trackers = Counter[str](), Counter[str](), Counter[str]()
    attempts = Counter[str]()
    for state, agent, tracker, has_attempt, n in groups:
        link = "linked" if has_attempt else "none"
        has = (
            has_value(query.state, state),
            has_value(query.agent, agent),
            has_value(query.tracker, tracker),
            has_value(query.attempt, link),
        )
        # a facet counts for any value of its own key
        states[state] += n * all(has[1:])
        agents[agent] += n * (has[0] and all(has[2:]))
        trackers[tracker] += n * (all(has[:2]) and has[3])
        attempts[link] += n * all(has[:3])
    return SessionCounts(
        {state: states[state] for state in STATES},
        [(name, n) for name, n in agents.most_common(FACETS_SHOWN) if n],
        [(name, n) for name, n in trackers.most_common() if n],
        {name: attempts[name] for name in ATTEMPTS},
    )
