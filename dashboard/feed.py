"""What Activity and the feeds ask the journal: newest first, by keyset, never counted to the end."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Case, Count, F, Func, JSONField, QuerySet, TextField, Value, When
from django.db.models.functions import Cast, Left, Length, TruncMinute

from dashboard import event_filters
from dashboard.event_filters import EventQuery
from dashboard.selectors import named, of_project, remembered
from dashboard.told import About, Told, instruction_of, told
from ledger import sql
from ledger.models import Agent, Event, Instruction, Project
from retries.models import Escalation

PAGE = 50
DATA_SHOWN = 4000  # characters
NEW_COUNTED = 100
WINDOW = timedelta(hours=24)
# An event's id is made a moment after its `at` was taken, by another clock perhaps.
SLACK = timedelta(minutes=1)


def first_id(at: datetime) -> UUID:
    """The lowest id that can be made from `at` on: ids begin with their milliseconds."""
    milliseconds = max(0, int(at.timestamp() * 1000))
    return UUID(int=milliseconds << 80 | 7 << 76 | 2 << 62)


# ---- events


@dataclass(frozen=True, slots=True)
class Line:
    """An event with the words for it and where its subject is."""

    event: Event  # with `shown`, `size` and `cut`
    told: Told
    agent: str
    linked: str  # the name of the page that shows the subject, or nothing


@dataclass(frozen=True, slots=True)
class Page:
    """A stretch of the journal, newest first, and whether there is more on either side."""

    lines: list[Line]
    newer: UUID | None
    older: UUID | None


def events(query: EventQuery, project: Project | None) -> QuerySet[Event]:
    """Those that a query asks for. Time is asked of the id, which is indexed."""
    rows = Event.objects.all()
    if project:
        rows = rows.filter(project_id=project.id)
    if (kinds := event_filters.kinds(query.kind)) is not None:
        rows = rows.filter(kind__in=kinds)
    if (types := event_filters.actor_types(query.by)) is not None:
        rows = rows.filter(actor_type__in=types)
    if query.agent.wanted:
        rows = rows.filter(agent_id__in=ids_of(query.agent.wanted, project))
    if query.agent.unwanted:
        rows = rows.exclude(agent_id__in=ids_of(query.agent.unwanted, project))
    rows = rows.filter(named(query.actor, "actor_name"))
    if query.about:
        rows = rows.filter(subject_id__in=query.about)
    if query.since:
        rows = rows.filter(id__gte=first_id(query.since - SLACK), at__gte=query.since)
    if query.until:
        rows = rows.filter(id__lt=first_id(query.until + SLACK), at__lt=query.until)
    return rows


def ids_of(names: Iterable[str], project: Project | None) -> list[UUID]:
    """Looked up first: the planner can't know how many events a name stands for."""
    rows = of_project(Agent.objects.filter(name__in=list(names)), project)
    return list(rows.values_list("pk", flat=True))


def page(rows: QuerySet[Event], *, before: UUID | None, after: UUID | None) -> Page:
    """The events next to a place."""
    found = stretch(rows, before=before, after=after)
    if after and len(found) <= PAGE:  # less than a whole page is newer: that is the first page
        after, found = None, stretch(rows, before=None, after=None)
    more = len(found) > PAGE
    found = found[-PAGE:] if after else found[:PAGE]
    if not found:
        return Page([], None, None)
    newer = found[0].pk if before or (after and more) else None
    older = found[-1].pk if after or more else None
    return Page(lines(found), newer, older)


def stretch(rows: QuerySet[Event], *, before: UUID | None, after: UUID | None) -> list[Event]:
    """One more than a page holds, newest first."""
    if after:
        return list(shown(rows.filter(id__gt=after).order_by("id"))[: PAGE + 1])[::-1]
    rows = rows.filter(id__lt=before) if before else rows
    return list(shown(rows.order_by("-id"))[: PAGE + 1])


class Brief(Func):
    """A signal's event without the data that came with the signal."""

    template = "(%(expressions)s - 'data')"
    output_field = JSONField()


def shown(rows: QuerySet[Event]) -> QuerySet[Any]:
    """With as much of the data as a page can bear: a signal's may be long."""
    text = Cast("data", TextField())
    return rows.defer("data", "tx").annotate(
        size=Length(text),
        cut=Case(When(size__gt=DATA_SHOWN, then=Left(text, DATA_SHOWN)), default=Value("")),
        shown=Case(
            When(size__gt=DATA_SHOWN, then=Brief("data")),
            default=F("data"),
            output_field=JSONField(),
        ),
    )


def latest(project: Project | None, *, agent: Agent | None = None, most: int) -> list[Line]:
    """The newest events of a project or an agent."""
    rows = Event.objects.all()
    if agent:
        rows = rows.filter(agent_id=agent.pk)
    elif project:
        rows = rows.filter(project_id=project.id)
    return lines(list(shown(rows.order_by("-id"))[:most]))


def new_count(rows: QuerySet[Event], *, since: UUID) -> int:
    """How many are newer than the newest that is shown; nobody counts further than a hundred."""
    return rows.filter(id__gt=since).order_by()[:NEW_COUNTED].count()


def lines(found: list[Any]) -> list[Line]:
    """The events with names and words, looked up for all of them at once."""
    for event in found:
        event.data = event.shown
    agents = dict(
        Agent.objects.filter(
            pk__in={event.agent_id for event in found if event.agent_id}
        ).values_list("pk", "name")
    )
    instructions = words_of({id for event in found if (id := instruction_of(event))})
    answered = answered_about({e.subject_id for e in found if e.subject_type == "escalation"})
    made = []
    for event in found:
        text, queued_at = instructions.get(
            instruction_of(event), answered.get(event.subject_id, ("", None))
        )
        waited = (event.at - queued_at).total_seconds() if queued_at else None
        agent = agents.get(event.agent_id, "")
        about = About(agent, text, waited)
        made.append(Line(event, told(event, about), agent, linked(event, text, agents)))
    return made


def words_of(ids: set[UUID]) -> dict[UUID | None, tuple[str, datetime | None]]:
    """How instructions begin and when they were sent."""
    if not ids:
        return {}
    rows = Instruction.objects.filter(pk__in=ids).values_list(
        "pk", Left("content", 240), "queued_at"
    )
    return {pk: (text, queued_at) for pk, text, queued_at in rows}


def answered_about(ids: set[UUID]) -> dict[UUID, tuple[str, datetime | None]]:
    """How the instructions begin that escalations are about."""
    if not ids:
        return {}
    rows = Escalation.objects.filter(pk__in=ids)
    found = rows.values_list("pk", Left("instruction__content", 240))
    return {pk: (text or "", None) for pk, text in found}


def linked(event: Event, text: str, agents: dict[UUID, str]) -> str:
    """The page of the subject, where there is one: history outlives what it tells of."""
    if event.subject_type == "instruction":
        return "dashboard:instruction" if text else ""
    if event.subject_type == "escalation":
        return "dashboard:escalation"
    if event.subject_type == "agent" and event.subject_id in agents:
        return "dashboard:agent"
    return ""


# ---- how many


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
    return remembered(
        f"tallies:{project.id if project else 'all'}", lambda: tallied(project, since=now - WINDOW)
    )


def tallied(project: Project | None, *, since: datetime) -> Tallies:
    rows = sql.run(
        TALLIES,
        floor=first_id(since - SLACK),
        since=since,
        project=project.id if project else None,
    )
    nouns, agents, people = dict.fromkeys(event_filters.NOUNS, 0), dict[UUID, int](), 0
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
BAD = ("instruction.failed", "escalation.opened")


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
