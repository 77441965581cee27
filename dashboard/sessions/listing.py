"""The list of sessions: `agent:coder state:failed task:03-01:task-11 older:1h`."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import (
    Case,
    CharField,
    Count,
    Exists,
    F,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
    When,
)
from django.db.models.functions import Coalesce, JSONObject, Now, NullIf

from dashboard.frame.live_updates import read_session_list_key
from dashboard.frame.rendering import Visit
from dashboard.listing import Column, Listing, ListPage, any_of, equals, older_than, within
from dashboard.lists.facets import Facet, build_value_facets
from dashboard.lists.query_box import ANY, Names, StateQuery, Values, has_value, only_value
from dashboard.lists.query_values import Period, read_age, read_period
from dashboard.lists.shared_queries import hash_of
from dashboard.lists.sorting import largest
from dashboard.sessions.rows import describe_row, read_threshold
from dashboard.wording import badges
from ledger.database.optional_cache import get_or_compute_slow
from ledger.models import Attempt, Message, Project, Session
from ledger.models.session import TrackerName
from ledger.states import BatchOutcome

# the states of a session as the list derives them, most urgent first
STATES = ("failed", "processing", "buffering", "up-to-date", "stored")
LINKS = {"linked": ("Linked", "link"), "none": ("Not linked", "person")}
TRACKERS = {"todo": "To-do calls", "llm": "A model", "none": "Nothing: store only"}
FACETS_SHOWN = 8
STORED = Q(disable_task_tracking=True) | Q(tracker=TrackerName.NONE)
# the derived state, as in `rows.derive_state`
STATE = Case(
    When(last_outcome__in=(BatchOutcome.FAILED, BatchOutcome.LOST), then=Value("failed")),
    When(Q(running_count__gt=0) | Q(lock_until__gt=Now()), then=Value("processing")),
    When(pending_count__gt=0, then=Value("buffering")),
    When(STORED, then=Value("stored")),
    default=Value("up-to-date"),
    output_field=CharField(),
)
LINKED = Message.objects.filter(attempt__isnull=False, session=OuterRef("pk"))
LAST_LINKED = LINKED.order_by("-order").values(
    linked=JSONObject(
        id="attempt",
        task_id="attempt__task",
        label=Coalesce(NullIf("attempt__task__ref", Value("")), "attempt__task__title"),
    )
)[:1]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionQuery(StateQuery):
    agent: Values = ANY
    attempt: Values = ANY
    tracker: Values = ANY
    task: Values = ANY
    older: timedelta | None = None  # since the last activity
    newer: timedelta | None = None
    changed: Period | None = None

    def anything(self) -> "SessionQuery":
        # The counts of the facets need the query without their keys.
        return replace(self, text="", state=ANY, agent=ANY, attempt=ANY, tracker=ANY)


@dataclass(frozen=True, slots=True)
class SessionCounts:
    """The number of matching sessions by state, agent, tracker and link, each for any value."""

    states: dict[str, int]
    agents: list[tuple[str, int]]
    trackers: list[tuple[str, int]]
    links: dict[str, int]


def is_linked(name: str) -> Q:
    return Q(~Exists(LINKED)) if name == "none" else Q(Exists(LINKED))


def is_about(ref: str) -> Q:
    """Return the condition that a session has messages about tasks with this ref."""
    attempts = Attempt.objects.filter(task__ref=ref)
    return Q(pk__in=Message.objects.filter(attempt__in=attempts).values("session"))


class SessionList(Listing[SessionQuery]):
    """The sessions, those that were active last first."""

    name = "sessions"
    row_page = "session"
    current = "sessions"
    heading = "Sessions"
    nouns = "sessions"

    model = Session
    query = SessionQuery
    keys = {
        "agent": Names(),
        "state": Names(STATES),
        "attempt": Names(tuple(LINKS)),
        "tracker": Names(tuple(TRACKERS)),
        "task": Names(),
        "older": read_age("older"),
        "newer": read_age("newer"),
        "changed": read_period("changed"),
    }
    conditions = {
        "agent": equals("agent__name"),
        "attempt": any_of(is_linked),
        "tracker": equals("tracker"),
        "task": any_of(is_about),
        "older": older_than("last_message_at"),
        "changed": within("last_message_at"),
        "newer": lambda age: Q(last_message_at__gte=Now() - age),
    }

    template = "sessions/index.html"
    part = "sessions/_sessions.html"
    row = "sessions/_row.html"
    empty = "sessions/_none.html"
    table = "tbl rows rows--plain"
    holds = "pointer"
    example = "words in the prompt, agent:coder  state:failed  task:03-01:task-11  older:1h"
    columns = (
        Column("State"),
        Column("First prompt"),
        Column("Agent"),
        Column("To-dos", "c-md"),
        Column("Messages", "r c-lg", "messages", largest(F("message_count"))),
        Column("Buffer", template="sessions/_buffer_heading.html"),
        Column("Attempt", "c-lg"),
        Column("Active", "r", "active", largest(F("last_message_at"), is_indexed=True)),
    )
    default_sort = "-active"

    export_columns = {
        "id": "id",
        "project": "project__name",
        "agent": "agent__name",
        "external_id": "external_id",
        "title": "title",
        "state": "state",
        "tracker": "tracker",
        "messages": "message_count",
        "pending": "pending_count",
        "failed": "failed_count",
        "tasks": "task_count",
        "last_message_at": "last_message_at",
        "created_at": "created_at",
    }

    def rows(self, project: Project | None) -> QuerySet[Any]:
        found: QuerySet[Any] = super().rows(project).annotate(state=STATE)
        return found

    def in_state(self, name: str) -> Q:
        return Q(state=name)

    def has_word(self, word: str) -> Q:
        return Q(title__icontains=word) | Q(external_id=word)

    def load(self, rows: QuerySet[Any], opened: UUID | None) -> QuerySet[Any]:
        found: QuerySet[Any] = rows.select_related("agent", "project").annotate(
            linked=Subquery(LAST_LINKED)
        )
        return found.defer("metadata", "preferences")

    def count_states(self, query: SessionQuery, project: Project | None) -> SessionCounts:
        # One statement counts all; the sums by state, agent, tracker, and link follow from it.
        wanted = query.anything()
        where = project.id if project else "all"

        def count() -> list[tuple[str, str, str, bool, int]]:
            rows = self.find(wanted, project).order_by().annotate(linked=Exists(LINKED))
            groups = rows.values_list("state", "agent__name", "tracker", "linked")
            return list(groups.annotate(n=Count("*")))

        groups = get_or_compute_slow(f"sessions:{where}:{hash_of(wanted)}", count)
        return sum_up(groups, query)

    def find_total(self, counts: SessionCounts, query: SessionQuery) -> int:
        return sum(n for state, n in counts.states.items() if has_value(query.state, state))

    def build_facets(self, counts: SessionCounts, query: SessionQuery) -> list[Facet]:
        total = sum(counts.states.values())
        everything = query.one_state == "all"
        states = [Facet("All", query.having("state", ""), total, everything, "n-sessions")]
        for state in STATES:
            badge, current = badges.session_badge(state), query.one_state == state
            text = query.having("state", "" if current else f"state:{state}")
            n = counts.states[state]
            states.append(Facet(badge.label, text, n, current, badge.icon, badge.css))
        return states

    def read_extra(self, page: ListPage, visit: Visit) -> dict[str, Any]:
        query, counts = page.query, page.counts
        assert isinstance(query, SessionQuery)
        return {
            "threshold": read_threshold(),
            "facets": {
                "states": page.states,
                "agents": build_value_facets(
                    "agent", counts.agents, only_value(query.agent), query
                ),
                "attempts": [
                    choose("attempt", name, label, counts.links[name], query, icon)
                    for name, (label, icon) in LINKS.items()
                ],
                "trackers": [
                    choose("tracker", name, TRACKERS.get(name, name), n, query)
                    for name, n in counts.trackers
                ],
            },
        }

    def build_entries(self, page: ListPage, visit: Visit) -> list[Any]:
        return [describe_row(row, now=visit.now) for row in page.page.rows]

    @property
    def read_key(self) -> Callable[[datetime], str]:
        return lambda now: read_session_list_key(now=now)


SESSIONS = SessionList()


def sum_up(groups: Iterable[tuple[str, str, str, bool, int]], query: SessionQuery) -> SessionCounts:
    states, agents, trackers = Counter[str](), Counter[str](), Counter[str]()
    links = Counter[str]()
    for state, agent, tracker, has_attempt, n in groups:
        link = "linked" if has_attempt else "none"
        has = (
            has_value(query.state, state),
            has_value(query.agent, agent),
            has_value(query.tracker, tracker),
            has_value(query.attempt, link),
        )
        states[state] += n * all(has[1:])
        agents[agent] += n * (has[0] and all(has[2:]))
        trackers[tracker] += n * (all(has[:2]) and has[3])
        links[link] += n * all(has[:3])
    return SessionCounts(
        {state: states[state] for state in STATES},
        [(name, n) for name, n in agents.most_common(FACETS_SHOWN) if n],
        [(name, n) for name, n in trackers.most_common() if n],
        {name: links[name] for name in LINKS},
    )


def choose(key: str, name: str, label: str, n: int, query: SessionQuery, icon: str = "") -> Facet:
    current = only_value(getattr(query, key)) == name
    text = query.having(key, "" if current else f"{key}:{name}")
    return Facet(label, text, n, current, icon)
