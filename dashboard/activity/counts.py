"""Count events: those of the last day by kind and agent, those of the last hour by minute."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.db.models import Count, DateTimeField, F, Func, Value

from dashboard.activity import filters
from dashboard.activity.filters import EventQuery
from dashboard.activity.queries import filter_events
from dashboard.shared_queries import WINDOW
from ledger import sql
from ledger.ids import SLACK, first_id
from ledger.models import Agent, Project
from ledger.optional_cache import get_or_compute_slow


@dataclass(frozen=True, slots=True)
class EventCounts:
    """The numbers of the last day's events by the noun of their kind, by agent, and by people.

    The clock's events are counted by themselves.
    """

    total: int
    clock: int
    nouns: dict[str, int]
    agents: list[tuple[str, int]]  # the most active first
    people: int


MOST_AGENTS = 12
COUNTS = """select split_part(kind, '.', 1) as noun, agent_id, actor_type = 'user' as person,
    kind = any(%(clock)s) and actor_type = 'system' as clock, count(*) as n
from ledger_event where id >= %(floor)s and at >= %(since)s
    and (%(project)s::uuid is null or project_id = %(project)s)
group by 1, 2, 3, 4"""


def count_events(project: Project | None, *, now: datetime) -> EventCounts:
    """Return the counts of the last day, which are cached for a short time."""
    return get_or_compute_slow(
        f"event-counts:{project.id if project else 'all'}",
        lambda: read_counts(project, since=now - WINDOW),
    )


def read_counts(project: Project | None, *, since: datetime) -> EventCounts:
    rows = sql.run_custom_plan(
        COUNTS,
        floor=first_id(since - SLACK),
        since=since,
        project=project.id if project else None,
        clock=list(filters.CLOCK_KINDS),
    )
    clock = sum(row["n"] for row in rows if row["clock"])
    rows = [row for row in rows if not row["clock"]]
    nouns, agents, people = dict.fromkeys(filters.NOUNS, 0), dict[UUID, int](), 0
    for row in rows:
        nouns[row["noun"]] = nouns.get(row["noun"], 0) + row["n"]
        people += row["n"] if row["person"] else 0
        if row["agent_id"]:
            agents[row["agent_id"]] = agents.get(row["agent_id"], 0) + row["n"]
    busiest = sorted(agents, key=lambda id: -agents[id])[:MOST_AGENTS]
    names = dict(Agent.objects.filter(pk__in=busiest).values_list("pk", "name"))
    by_name: dict[str, int] = {}
    for id in busiest:  # agents of several projects can share a name, and the filter is by name
        if id in names:
            by_name[names[id]] = by_name.get(names[id], 0) + agents[id]
    return EventCounts(sum(nouns.values()), clock, nouns, list(by_name.items()), people)


@dataclass(frozen=True, slots=True)
class EventBar:
    """The numbers of events from a time on: all, and those that report a failure."""

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
