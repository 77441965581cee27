"""Queries of the journal for the Activity page and for the feeds of other pages."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from django.db.models import (
    Case,
    DateTimeField,
    F,
    Func,
    JSONField,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    TextField,
    Value,
    When,
)
from django.db.models.functions import Cast, Coalesce, Concat, Left, Length, Trim
from django.urls import reverse

from dashboard.activity import filters
from dashboard.activity.filters import EventQuery
from dashboard.lists.compiled_queries import compiled
from dashboard.lists.pagination import Page, read_oldest_page, read_page, slice_rows
from dashboard.lists.shared_queries import match_groups, match_values, of_project, title_of
from dashboard.sentences.event_sentence import EventSentence, EventSubject
from dashboard.sentences.events import describe_event
from dashboard.sentences.operations import describe_operation_event
from dashboard.sentences.plans import describe_plan_event
from dashboard.sentences.rules import describe_rule_event
from dashboard.sentences.sessions import describe_session_event
from ledger.models import (
    Agent,
    Event,
    Instruction,
    Plan,
    Project,
    Session,
    StandingInstruction,
    Task,
)
from ledger.models.event import EventQuerySet
from ledger.values.ids import SLACK, first_id
from retries.models import Escalation, FailurePattern, PermissionRequest, PermissionRule

SNIPPET = 240
DATA_SHOWN = 4000  # characters
NEW_CAP = 100  # counting stops here


# people make some of these moves, too
MADE_BY_CLOCK = Q(kind__in=filters.CLOCK_KINDS, actor_type="system")


@dataclass(frozen=True, slots=True)
class EventEntry:
    event: Event  # with `size` and `cut`
    sentence: EventSentence
    agent: str
    page: str  # the address, or an empty string


def filter_events(query: EventQuery, project: Project | None) -> EventQuerySet:
    """Return the events of a query, by their ids where it limits the time: these are indexed."""
    rows = Event.objects.all()
    if project:
        rows = rows.filter(project_id=project.id)
    if (kinds := filters.kinds(query.kind)) is not None:
        rows = rows.filter(kind__in=kinds)
    if query.hides_clock:
        rows = rows.exclude(MADE_BY_CLOCK)
    if (types := filters.actor_types(query.by)) is not None:
        rows = rows.filter(actor_type__in=types)
    if query.agent.wanted:
        rows = rows.filter(agent_id__in=ids_of(query.agent.wanted, project))
    if query.agent.unwanted:
        rows = rows.exclude(agent_id__in=ids_of(query.agent.unwanted, project))
    rows = rows.filter(match_values(query.actor, "actor_name"))
    if query.about:
        rows = rows.about_any(query.about)
    if query.since:
        rows = rows.since(query.since)
    if query.until:
        rows = rows.until(query.until)
    return rows.filter(match_alternatives(query, project)) if query.groups else rows


def match_alternatives(query: EventQuery, project: Project | None) -> Q:
    """Return the condition of the groups of a query, without the clock's rule."""

    def match(each: EventQuery) -> Q:
        found = match_values(each.actor, "actor_name")
        if (kinds := filters.kinds(each.kind)) is not None:
            found &= Q(kind__in=kinds)
        if (types := filters.actor_types(each.by)) is not None:
            found &= Q(actor_type__in=types)
        if each.agent.wanted:
            found &= Q(agent_id__in=ids_of(each.agent.wanted, project))
        if each.agent.unwanted:
            found &= ~Q(agent_id__in=ids_of(each.agent.unwanted, project))
        if each.about:
            found &= Q(subject_id__in=each.about)
        if each.since:
            found &= Q(id__gte=first_id(each.since - SLACK), at__gte=each.since)
        if each.until:
            found &= Q(id__lt=first_id(each.until + SLACK), at__lt=each.until)
        return found

    return match_groups(query, match)


def ids_of(names: Iterable[str], project: Project | None) -> list[UUID]:
    # With a join, the planner could not estimate the agents' events.
    rows = of_project(Agent.objects.filter(name__in=list(names)), project)
    return list(rows.values_list("pk", flat=True))


def list_events(
    query: EventQuery,
    project: Project | None,
    *,
    is_oldest_first: bool = False,
    before: UUID | None,
    after: UUID | None,
) -> Page[EventEntry]:
    read = read_oldest_page if is_oldest_first else read_page
    # the ids of agents are read when the query is built
    fetch = fetch_events_of_agents if query.names_any("agent") else fetch_events
    page = read(partial(fetch, query, project), before=before, after=after)
    return page.map(describe_events)


def build_slice(
    query: EventQuery, project: Project | None, before: UUID | None, after: UUID | None
) -> QuerySet[Any]:
    rows = with_extras(filter_events(query, project))
    return slice_rows(rows, before=before, after=after)


fetch_events = compiled(build_slice)


def fetch_events_of_agents(
    query: EventQuery, project: Project | None, before: UUID | None, after: UUID | None
) -> list[Any]:
    return list(build_slice(query, project, before, after))


class WithoutSignalData(Func):
    template = "(%(expressions)s - 'data')"
    output_field = JSONField()


INSTRUCTION = Instruction.objects.filter(pk=OuterRef("subject_id"))
ESCALATION = Escalation.objects.filter(pk=OuterRef("subject_id"))
TASK = Task.objects.filter(pk=OuterRef("subject_id"))
PLAN = Plan.objects.filter(pk=OuterRef("subject_id"))
PATTERN = FailurePattern.objects.filter(pk=OuterRef("subject_id"))
RULE = StandingInstruction.objects.filter(pk=OuterRef("subject_id"))
PERMISSION = PermissionRequest.objects.filter(pk=OuterRef("subject_id"))
PERMISSION_RULE = PermissionRule.objects.filter(pk=OuterRef("subject_id"))
SESSION = Session.objects.filter(pk=OuterRef("subject_id"))
# the text of an event's subject, by its type
TEXTS = {
    "instruction": INSTRUCTION.values(start=Left("content", SNIPPET)),
    "task": TASK.values(start=title_of()),
    "plan": PLAN.values(start=Trim(Concat("ref", Value(" "), "title"))),
    "escalation": ESCALATION.values(
        start=Coalesce(
            Left("instruction__content", SNIPPET),
            Left("permission__title", SNIPPET),
            title_of("task__"),
        )
    ),
    "permission_request": PERMISSION.values(start=Left("title", SNIPPET)),
    "permission_rule": PERMISSION_RULE.values(
        start=Trim(Concat("tool", Value(" "), Left("matcher", SNIPPET)))
    ),
    "pattern": PATTERN.values(start=Left("template", SNIPPET)),
    "rule": RULE.values(start=Left("content", SNIPPET)),
    "session": SESSION.values(start=Left("title", SNIPPET)),
}


def with_extras(rows: QuerySet[Event]) -> QuerySet[Any]:
    """Return the events with names and texts of their subjects, and with long data cut off."""
    text = Cast("data", TextField())
    return rows.defer("data", "tx").annotate(
        agent=Subquery(Agent.objects.filter(pk=OuterRef("agent_id")).values("name")),
        text=Case(
            *(When(subject_type=type, then=Subquery(words)) for type, words in TEXTS.items()),
            output_field=TextField(),
        ),
        queued_at=Case(
            When(subject_type="instruction", then=Subquery(INSTRUCTION.values("queued_at"))),
            output_field=DateTimeField(),
        ),
        size=Length(text),
        cut=Case(When(size__gt=DATA_SHOWN, then=Left(text, DATA_SHOWN)), default=Value("")),
        shown=Case(
            When(size__gt=DATA_SHOWN, then=WithoutSignalData("data")),
            default=F("data"),
            output_field=JSONField(),
        ),
    )


def list_latest(
    project: Project | None, *, agent: Agent | None = None, most: int, quiet: bool = False
) -> list[EventEntry]:
    """Return the newest events of a project or an agent; `quiet` leaves out the clock's."""
    return describe_events(fetch_latest(project, agent, most, quiet))


@compiled
def fetch_latest(
    project: Project | None, agent: Agent | None, most: int, quiet: bool
) -> QuerySet[Any]:
    rows = Event.objects.exclude(MADE_BY_CLOCK) if quiet else Event.objects.all()
    if agent:
        rows = rows.filter(agent_id=agent.pk)
    elif project:
        rows = rows.filter(project_id=project.id)
    return with_extras(rows.order_by("-id"))[:most]


def count_newer(rows: QuerySet[Event], *, than: UUID) -> int:
    return rows.filter(id__gt=than).order_by()[:NEW_CAP].count()


def describe_events(events: list[Any]) -> list[EventEntry]:
    entries = []
    for event in events:
        event.data = event.shown
        waited = (event.at - event.queued_at).total_seconds() if event.queued_at else None
        about = EventSubject(event.agent or "", event.text or "", waited)
        sentence = describe(event, about)
        entries.append(EventEntry(event, sentence, event.agent or "", page_of(event)))
    return entries


def describe(event: Event, about: EventSubject) -> EventSentence:
    match event.kind.partition(".")[0]:
        case "plan":
            return describe_plan_event(event, about)
        case "standing_instruction":
            return describe_rule_event(event, about)
        case "session":
            return describe_session_event(event, about)
        case "operation" | "audit":
            return describe_operation_event(event)
    return describe_event(event, about)


WITH_PAGES = ("instruction", "task", "plan", "escalation", "pattern", "rule", "session")


def page_of(event: Any) -> str:
    """Return the address of the page of an event's subject, if the subject still exists."""
    match event.subject_type:
        case name if name in WITH_PAGES and event.text:
            return reverse(f"dashboard:{event.subject_type}", args=[event.subject_id])
        case "agent" if event.agent and event.agent_id == event.subject_id:
            return reverse("dashboard:agent", args=[event.agent_id])
        case "limit":
            return reverse("dashboard:limits")
        case "budget" | "price":
            return reverse("dashboard:budgets")
    return ""
