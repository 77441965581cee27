"""What Activity and the feeds ask the journal: newest first, by keyset, counted only so far."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import (
    Case,
    DateTimeField,
    F,
    Func,
    JSONField,
    OuterRef,
    QuerySet,
    Subquery,
    TextField,
    Value,
    When,
)
from django.db.models.functions import Cast, Coalesce, Concat, Left, Length, Trim

from dashboard import pagination
from dashboard.activity import filters
from dashboard.activity.filters import EventQuery
from dashboard.pagination import Page
from dashboard.sentences.events import EventSentence, EventSubject, describe_event
from dashboard.sentences.plans import describe_plan_event
from dashboard.shared_queries import match_values, of_project, title_of
from ledger.ids import SLACK, first_id
from ledger.models import Agent, Event, Instruction, Plan, Project, Task
from retries.models import Escalation, FailurePattern

SNIPPET = 240
DATA_SHOWN = 4000  # characters
NEW_COUNTED = 100
# ---- events


@dataclass(frozen=True, slots=True)
class Line:
    """An event with the words for it and where its subject is."""

    event: Event  # with `shown`, `size` and `cut`
    told: EventSentence
    agent: str
    linked: str  # the name of the page that shows the subject, or nothing


def events(query: EventQuery, project: Project | None) -> QuerySet[Event]:
    """Those that a query asks for. Time is asked of the id, which is indexed."""
    rows = Event.objects.all()
    if project:
        rows = rows.filter(project_id=project.id)
    if (kinds := filters.kinds(query.kind)) is not None:
        rows = rows.filter(kind__in=kinds)
    if (types := filters.actor_types(query.by)) is not None:
        rows = rows.filter(actor_type__in=types)
    if query.agent.wanted:
        rows = rows.filter(agent_id__in=ids_of(query.agent.wanted, project))
    if query.agent.unwanted:
        rows = rows.exclude(agent_id__in=ids_of(query.agent.unwanted, project))
    rows = rows.filter(match_values(query.actor, "actor_name"))
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


def page(rows: QuerySet[Event], *, before: UUID | None, after: UUID | None) -> Page[Line]:
    """The events next to a place."""
    return pagination.read_page(shown(rows), before=before, after=after).map(lines)


class Brief(Func):
    """A signal's event without the data that came with the signal."""

    template = "(%(expressions)s - 'data')"
    output_field = JSONField()


OWN = Instruction.objects.filter(pk=OuterRef("subject_id"))
ASKED_ABOUT = Escalation.objects.filter(pk=OuterRef("subject_id"))
TITLED = Task.objects.filter(pk=OuterRef("subject_id"))
PLANNED = Plan.objects.filter(pk=OuterRef("subject_id"))
GROUPED = FailurePattern.objects.filter(pk=OuterRef("subject_id"))
# the words of what an event is about, by the type of its subject
TEXTS = {
    "instruction": OWN.values(start=Left("content", SNIPPET)),
    "task": TITLED.values(start=title_of()),
    "plan": PLANNED.values(start=Trim(Concat("ref", Value(" "), "title"))),
    "escalation": ASKED_ABOUT.values(
        start=Coalesce(Left("instruction__content", SNIPPET), title_of("task__"))
    ),
    "pattern": GROUPED.values(start=Left("template", SNIPPET)),
}


def shown(rows: QuerySet[Event]) -> QuerySet[Any]:
    """With the names and words that its data does not have, and as much of the data as a page can
    bear: a signal's may be long. Each is looked up for the page's rows alone."""
    text = Cast("data", TextField())
    return rows.defer("data", "tx").annotate(
        agent=Subquery(Agent.objects.filter(pk=OuterRef("agent_id")).values("name")),
        text=Case(
            *(When(subject_type=type, then=Subquery(words)) for type, words in TEXTS.items()),
            output_field=TextField(),
        ),
        queued_at=Case(
            When(subject_type="instruction", then=Subquery(OWN.values("queued_at"))),
            output_field=DateTimeField(),
        ),
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
    """The events with the words for them."""
    made = []
    for event in found:
        event.data = event.shown
        waited = (event.at - event.queued_at).total_seconds() if event.queued_at else None
        about = EventSubject(event.agent or "", event.text or "", waited)
        made.append(Line(event, sentence(event, about), event.agent or "", linked(event)))
    return made


def sentence(event: Event, about: EventSubject) -> EventSentence:
    is_plan = event.kind.startswith("plan.")
    return describe_plan_event(event, about) if is_plan else describe_event(event, about)


def linked(event: Any) -> str:
    """The page of the subject, where there is one: history outlives what it tells of."""
    match event.subject_type:
        case "instruction" | "task" | "plan" | "escalation" | "pattern" if event.text:
            return f"dashboard:{event.subject_type}"
        case "agent" if event.agent and event.agent_id == event.subject_id:
            return "dashboard:agent"
    return ""
