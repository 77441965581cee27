"""Count events: those that the filters beside the log lead to, and those of each step of time."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Count, DateTimeField, F, Func, Value

from dashboard.activity import filters
from dashboard.activity.filters import EventQuery
from dashboard.activity.queries import filter_events, match_alternatives
from dashboard.lists.query_box import ANY, has_value
from dashboard.lists.shared_queries import WINDOW, hash_of, name_params
from ledger.database import sql
from ledger.database.optional_cache import get_or_compute_slow
from ledger.journal import since_subject
from ledger.models import Agent, Event, Project
from ledger.values.ids import SLACK, first_id


@dataclass(frozen=True, slots=True)
class EventCounts:
    """The numbers of events by the noun of their kind, by agent, and by people.

    The clock's events are counted by themselves. Where there are too many events to count,
    `are_known` is false, and the agents are those of the newest events.
    """

    total: int
    clock: int
    nouns: dict[str, int]
    agents: list[tuple[str, int]]  # the most active first
    people: int
    are_known: bool


@dataclass(frozen=True, slots=True)
class CountedRange:
    """The time whose events are counted; `most` limits how many of them are read."""

    since: datetime | None
    until: datetime | None
    most: int | None


MOST_AGENTS = 12
MOST_READ = 50_000  # events of a range that may be longer than a day
# A subselect without a limit is planned as a part of the statement. What has no index is left to
# the outer select, so that the limit bounds the events that are read.
COUNTS = f"""select kind, agent_id, actor_type,
    kind = any(%(clock)s) and actor_type = 'system' as clock,
    count(*) as read,
    count(*) filter (
        where (%(project)s::uuid is null or project_id = %(project)s)
        and (%(actors)s::text[] is null or actor_name = any(%(actors)s))
        and actor_name <> all(%(other_actors)s::text[])
    ) as n
from (
    select kind, agent_id, actor_type, actor_name, project_id from {{source}}
    where (%(since)s::timestamptz is null or id >= %(floor)s and at >= %(since)s)
    and (%(until)s::timestamptz is null or id < %(ceiling)s and at < %(until)s)
    and (%(about)s::uuid[] is null or subject_id = any(%(about)s)
        and id >= {since_subject("%(oldest)s::uuid")})
    {{limit}}
) events group by 1, 2, 3"""
COUNTED_COLUMNS = (
    *("id", "at", "kind", "agent_id", "actor_type", "actor_name", "project_id", "subject_id"),
)
NEWEST = "order by id desc limit %(most)s"


def count_events(query: EventQuery, project: Project | None, *, now: datetime) -> EventCounts:
    """Return the counts of the query's range; they are cached for a short time if they are slow.

    Each leaves out the query's own key, but no other one.
    """
    return get_or_compute_slow(
        f"event-counts:{project.id if project else 'all'}:{hash_of(query.text)}",
        lambda: read_counts(query, project, now=now),
    )


def is_last_day(query: EventQuery) -> bool:
    """Return whether the last day is counted, because the query limits the events in no way."""
    return not (query.since or query.until or query.about)


def range_of(query: EventQuery, *, now: datetime) -> CountedRange:
    """Return the time to count: the query's range, or the last day if it has none."""
    if is_last_day(query):
        return CountedRange(now - WINDOW, None, None)
    end = min(query.until or now, now)
    is_short = query.since is not None and end - query.since <= LONGEST
    return CountedRange(query.since, query.until, None if is_short else MOST_READ)


def read_counts(query: EventQuery, project: Project | None, *, now: datetime) -> EventCounts:
    counted = range_of(query, now=now)
    since, until, most = counted.since, counted.until, counted.most
    source, params = read_source(query, project)
    rows = sql.run_custom_plan(
        COUNTS.format(limit=NEWEST if most else "", source=source),
        **params,
        since=since,
        floor=first_id(since - SLACK) if since else None,
        until=until,
        ceiling=first_id(until + SLACK) if until else None,
        about=list(query.about) or None,
        oldest=min(query.about, default=None),
        project=project.id if project else None,
        actors=list(query.actor.wanted) or None,
        other_actors=list(query.actor.unwanted),
        clock=list(filters.CLOCK_KINDS),
        most=most and most + 1,
    )
    are_known = most is None or sum(row["read"] for row in rows) <= most
    return add_up(rows, query, are_known=are_known)


def read_source(query: EventQuery, project: Project | None) -> tuple[str, dict[str, Any]]:
    """Return the table of events, or the part of it that the groups of a query find."""
    if not query.groups:
        return "ledger_event", {}
    found = Event.objects.filter(match_alternatives(query, project)).order_by()
    text, params = name_params(found.values(*COUNTED_COLUMNS))
    return f"({text}) ledger_event", params


def add_up(rows: Iterable[sql.Row], query: EventQuery, *, are_known: bool) -> EventCounts:
    ids = {row["agent_id"] for row in rows if row["agent_id"]}
    names = dict(Agent.objects.filter(pk__in=ids).values_list("pk", "name"))
    kinds, types = filters.kinds(query.kind), filters.actor_types(query.by)
    # the links beside the log, whose numbers these are, drop keys that ask for the clock's events
    all_hide_clock = replace(query, kind=ANY, by=ANY).hides_clock
    nouns_hide_clock = replace(query, kind=ANY).hides_clock
    total = clock = people = 0
    # agents of several projects can share a name, and the filter is by name
    nouns, agents = Counter(dict.fromkeys(filters.NOUNS, 0)), Counter[str]()
    for row in rows:
        name, n = names.get(row["agent_id"], ""), row["n"]
        has_agent = has_value(query.agent, name)
        has_kind = kinds is None or row["kind"] in kinds
        has_actor = types is None or row["actor_type"] in types
        if row["clock"]:
            clock += n * (has_agent and has_kind and has_actor)
        if not (row["clock"] and all_hide_clock):
            total += n * has_agent
        if not (row["clock"] and nouns_hide_clock):
            nouns[row["kind"].partition(".")[0]] += n * (has_agent and has_actor)
        if not (row["clock"] and query.hides_clock):
            agents[name] += n * (has_kind and has_actor and bool(name))
        people += n * (has_agent and has_kind and row["actor_type"] == "user")
    busiest = [(name, n) for name, n in agents.most_common(MOST_AGENTS) if n]
    return EventCounts(total, clock, dict(nouns), busiest, people, are_known)


@dataclass(frozen=True, slots=True)
class EventBar:
    """Event counts since a time: all, and failures."""

    at: datetime
    count: int
    bad: int


@dataclass(frozen=True, slots=True)
class EventBars:
    """The events of a range of time in equal steps, oldest first."""

    bars: list[EventBar]
    step: timedelta

    @property
    def start(self) -> datetime:
        return self.bars[0].at

    @property
    def end(self) -> datetime:
        return self.bars[-1].at + self.step


HOUR = timedelta(hours=1)
LONGEST = timedelta(hours=24)  # so that no chart counts the whole journal
MOST_BARS = 60
STEPS = tuple(timedelta(minutes=minutes) for minutes in (1, 2, 5, 10, 15, 30))
BAD = ("instruction.failed", "task.failed", "escalation.opened", "agent.breaker_opened")


def count_by_step(query: EventQuery, project: Project | None, *, now: datetime) -> EventBars:
    """Count the events of the query's range, of its last day, or else of the last hour."""
    end = min(query.until or now, now).astimezone(UTC)
    start = max(query.since or end - HOUR, end - LONGEST).astimezone(UTC)
    step = next((each for each in STEPS if (end - start) / each <= MOST_BARS), STEPS[-1])
    last = floor_time(end - timedelta(microseconds=1), step)
    first = min(floor_time(start, step), last)
    if query.since is None and last - first >= HOUR:
        first += step  # the hour ends with this minute
    rows = filter_events(query, project).since(first)
    found = (
        rows.order_by()
        .annotate(bar=DateBin(Value(step), F("at"), Value(EPOCH)))
        .values_list("bar", "kind")
        .annotate(n=Count("*"))
    )
    counts: dict[datetime, tuple[int, int]] = {}
    for at, kind, n in found:
        count, bad = counts.get(at, (0, 0))
        counts[at] = (count + n, bad + (n if kind in BAD else 0))
    times = [first + step * n for n in range(int((last - first) / step) + 1)]
    return EventBars([EventBar(at, *counts.get(at, (0, 0))) for at in times], step)


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class DateBin(Func):
    """The start of the step of time that a time is in."""

    function = "date_bin"
    output_field = DateTimeField()


def floor_time(at: datetime, step: timedelta) -> datetime:
    return at - (at - EPOCH) % step
