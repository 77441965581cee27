"""How much happens: the journal's last day by kind and agent, its last hour minute by minute."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.db.models import Count
from django.db.models.functions import TruncMinute

from dashboard.activity import filters
from dashboard.activity.filters import EventQuery
from dashboard.activity.queries import events
from dashboard.shared_queries import WINDOW
from ledger import sql
from ledger.ids import SLACK, first_id
from ledger.models import Agent, Project
from ledger.optional_cache import figure


@dataclass(frozen=True, slots=True)
class Tallies:
    """The events of the last day by the noun of their kind, by agent, and by people."""

    total: int
    nouns: dict[str, int]
    agents: list[tuple[str, int]]  # the busiest first
    people: int


AGENTS_TALLIED = 12
TALLIES = """select split_part(kind, '.', 1) as noun, agent_id, actor_type = 'user' as person,
    count(*) as n
from ledger_event where id >= %(floor)s and at >= %(since)s
    and (%(project)s::uuid is null or project_id = %(project)s)
group by 1, 2, 3"""


def tallies(project: Project | None, *, now: datetime) -> Tallies:
    return figure(
        f"tallies:{project.id if project else 'all'}", lambda: tallied(project, since=now - WINDOW)
    )


def tallied(project: Project | None, *, since: datetime) -> Tallies:
    rows = sql.planned(
        TALLIES,
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
    busiest = sorted(agents, key=lambda id: -agents[id])[:AGENTS_TALLIED]
    names = dict(Agent.objects.filter(pk__in=busiest).values_list("pk", "name"))
    by_name: dict[str, int] = {}
    for id in busiest:  # agents of several projects may share a name, and then a filter
        if id in names:
            by_name[names[id]] = by_name.get(names[id], 0) + agents[id]
    return Tallies(sum(nouns.values()), nouns, list(by_name.items()), people)


@dataclass(frozen=True, slots=True)
class Minute:
    """How many events a minute had, and how many of them tell of something given up."""

    at: datetime
    count: int
    bad: int


MINUTES = 60
BAD = ("instruction.failed", "task.failed", "escalation.opened", "agent.breaker_opened")


def minutes(query: EventQuery, project: Project | None, *, now: datetime) -> list[Minute]:
    """The last hour, or the hour before `until`, minute by minute, oldest first."""
    end = min(query.until or now, now).astimezone(UTC)
    first = end.replace(second=0, microsecond=0) - timedelta(minutes=MINUTES - 1)
    if query.since and query.since > first:
        first = query.since.astimezone(UTC).replace(second=0, microsecond=0)
    rows = events(query, project).filter(id__gte=first_id(first - SLACK), at__gte=first)
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
