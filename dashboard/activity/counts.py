"""Count events: those of the last day by kind and agent, those of the last hour by minute."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.db.models import Count
from django.db.models.functions import TruncMinute

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
    """The numbers of the last day's events by the noun of their kind, by agent, and by people."""

    total: int
    nouns: dict[str, int]
    agents: list[tuple[str, int]]  # the most active first
    people: int


MOST_AGENTS = 12
COUNTS = """select split_part(kind, '.', 1) as noun, agent_id, actor_type = 'user' as person,
    count(*) as n
from ledger_event where id >= %(floor)s and at >= %(since)s
    and (%(project)s::uuid is null or project_id = %(project)s)
group by 1, 2, 3"""


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
    )
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
    return EventCounts(sum(nouns.values()), nouns, list(by_name.items()), people)


@dataclass(frozen=True, slots=True)
class Minute:
    """The numbers of events in a minute: all, and those that report a failure."""

    at: datetime
    count: int
    bad: int


MINUTES = 60
BAD = ("instruction.failed", "task.failed", "escalation.opened", "agent.breaker_opened")


def count_by_minute(query: EventQuery, project: Project | None, *, now: datetime) -> list[Minute]:
    """Count the events of the last hour, or of the hour before `until`, oldest first."""
    end = min(query.until or now, now).astimezone(UTC)
    first = end.replace(second=0, microsecond=0) - timedelta(minutes=MINUTES - 1)
    if query.since and query.since > first:
        first = query.since.astimezone(UTC).replace(second=0, microsecond=0)
    rows = filter_events(query, project).filter(id__gte=first_id(first - SLACK), at__gte=first)
    found = (
        rows.order_by()
        .annotate(minute=TruncMinute("at", tzinfo=UTC))
        .values_list("minute", "kind")
        .annotate(n=Count("*"))
    )
    counts: dict[datetime, tuple[int, int]] = {}
    for at, kind, n in found:
        count, bad = counts.get(at, (0, 0))
        counts[at] = (count + n, bad + (n if kind in BAD else 0))
    length = max(1, int((end - first) / timedelta(minutes=1)) + 1)
    each = (first + timedelta(minutes=n) for n in range(length))
    return [Minute(at, *counts.get(at, (0, 0))) for at in each]
