"""Queries of the inbox: open and closed escalations, and one with its comments."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from django.db.models.expressions import RawSQL
from django.db.models.functions import Coalesce, Left

from dashboard.lists.compiled_queries import compiled
from dashboard.lists.pagination import Page
from dashboard.lists.shared_queries import CountOf, of_project, title_of
from dashboard.saved_views.strip import saved_as_json
from dashboard.wording.formatting import COUNT_CAP
from ledger.agents import find_silent
from ledger.authorization.permissions import people_who_may
from ledger.journal import Kind
from ledger.models import Event, Instruction, Project
from retries.escalations import answer_outcome
from retries.escalations.answer_outcome import TaskOutcome
from retries.escalations.assignment import ANSWER
from retries.models import ContextExperiment, Escalation
from retries.retry_context.history import select_payload_changes
from retries.states import EscalationState

PAGE = 30
SNIPPET = 120
EARLIER = 20  # answers and comments to show
PEOPLE_SHOWN = 30

# columns that a list does not load
HEAVY_OF_INSTRUCTION = ("content", "content_sha256", "expect_match", "acknowledged_by", "note")
HEAVY = (
    "fix",
    "sealed",
    "note",
    *(f"instruction__{name}" for name in HEAVY_OF_INSTRUCTION),
    *(f"resent_as__{name}" for name in HEAVY_OF_INSTRUCTION),
    "task__payload",
    "task__result",
    "task__error",
    "question",
    "choices",
    "response_schema",
    "response",
    "client_state",
    "permission__input",
    "permission__said",
    "permission__marks",
)


# ---- the list


@dataclass(frozen=True, slots=True)
class ListCounts:
    """The numbers of snoozed, closed, and found escalations, each up to COUNT_CAP."""

    snoozed: int = 0
    closed: int = 0
    found: int | None = None  # the number that a filter finds


def count_lists(
    project: Project | None, *, now: datetime, found: QuerySet[Escalation] | None = None
) -> ListCounts:
    """Count the lists beside the inbox, and the rows that one list's filter finds."""
    if found is None:
        rows: Iterable[dict[str, int]] = fetch_counts(project, now, COUNT_CAP)
    else:
        matching = of_project(found, project).order_by().values("pk")[:COUNT_CAP]
        counted = select_counts(project, now, COUNT_CAP).annotate(found=CountOf(matching))
        rows = counted.values("snoozed", "closed", "found")[:1]
    return ListCounts(**next(iter(rows), {}))


def select_counts(
    project: Project | None, now: datetime, most: int
) -> QuerySet[Any, dict[str, int]]:
    snoozed = of_project(Escalation.objects.snoozed(now), project).order_by()
    ended = of_project(closed(), project).order_by()
    rows: QuerySet[Any, Any] = (
        Project.objects.order_by()
        .annotate(
            snoozed=CountOf(snoozed.values("pk")[:most]), closed=CountOf(ended.values("pk")[:most])
        )
        .values("snoozed", "closed")
    )
    return rows


@compiled
def fetch_counts(
    project: Project | None, now: datetime, most: int
) -> QuerySet[Any, dict[str, int]]:
    return select_counts(project, now, most)[:1]


def closed() -> QuerySet[Escalation]:
    return Escalation.objects.exclude(state=EscalationState.OPEN)


def with_extras(rows: QuerySet[Escalation], project: Project | None) -> QuerySet[Any]:
    rows = of_project(rows, project)
    return (
        rows.select_related("agent", "project", "instruction", "resent_as", "task", "permission")
        .defer(*HEAVY)
        .annotate(start=first_words(), asks=Left("question", SNIPPET), asked_again=asked_again())
    )


def asked_again() -> Subquery:
    """Return the expression for the attempt after which the task was escalated again."""
    later = Escalation.objects.filter(task=OuterRef("task"), pk__gt=OuterRef("pk"))
    return Subquery(later.order_by("id").values("attempts")[:1])


def read_aftermaths(rows: Iterable[Escalation]) -> dict[UUID, TaskOutcome]:
    """Return the results of answers whose tasks were restarted or replayed."""
    # Without such a task there is no query.
    return answer_outcome.find_outcomes(row for row in rows if row.task and row.task.replaced_by_id)


def first_words() -> Coalesce:
    """Return the start of an instruction's text, of a call's title, or of a task's title."""
    texts = ("instruction__content", "permission__title")
    return Coalesce(*(Left(text, SNIPPET) for text in texts), title_of("task__"))


def list_closed(
    project: Project | None,
    *,
    narrow: Callable[[QuerySet[Any]], QuerySet[Any]] | None = None,
    is_reversed: bool = False,
    before: UUID | None,
    after: UUID | None,
) -> Page[Escalation]:
    # The escalation that was closed last comes first.
    def fetch(place: UUID | None, downwards: bool) -> Iterable[Escalation]:
        is_rising = downwards == is_reversed
        if narrow is None:
            return fetch_closed(project, place, is_rising, PAGE + 1)
        rows = narrow(with_extras(closed(), project))
        return next_to(rows, "closed_at", place, is_rising=is_rising)[: PAGE + 1]

    return read_list(fetch, before=before, after=after)


def read_list(
    fetch: Callable[[UUID | None, bool], Iterable[Escalation]],
    *,
    before: UUID | None,
    after: UUID | None,
) -> Page[Escalation]:
    """Return the page beside an escalation; `fetch` reads one row more, the nearest first."""
    place = before or after
    downwards = not after or bool(before)
    found = list(fetch(place, downwards))
    more, found = len(found) > PAGE, found[:PAGE]
    if not found:
        return Page([], newer=None, older=None)
    last, first = (found[-1], found[0]) if downwards else (found[0], found[-1])
    return Page(
        found if downwards else found[::-1],
        newer=first.pk if (place if downwards else more) else None,
        older=last.pk if (more if downwards else place) else None,
    )


@compiled
def fetch_closed(
    project: Project | None, place: UUID | None, is_rising: bool, most: int
) -> QuerySet[Any]:
    rows = with_extras(closed(), project)
    return next_to(rows, "closed_at", place, is_rising=is_rising)[:most]


def next_to(
    rows: QuerySet[Any], column: str, place: UUID | None, *, is_rising: bool
) -> QuerySet[Any]:
    """Return the rows before or after `place` in the order of a time, the nearest first."""
    if place:
        rows = rows.filter(beyond(place, column, "gt" if is_rising else "lt"))
    sign = "" if is_rising else "-"
    return rows.order_by(f"{sign}{column}", f"{sign}id")


def beyond(place: UUID, column: str, side: str) -> Q:
    at = Escalation.objects.filter(pk=place).values(column)[:1]
    nearer = Q(**{column: at, f"id__{side}": place})
    # the index serves the first condition only; the second one is exact
    return Q(**{f"{column}__{side}e": at}) & (Q(**{f"{column}__{side}": at}) | nearer)


def find_last_closed(project: Project | None) -> Escalation | None:
    return with_extras(closed(), project).order_by("-closed_at", "-id").first()


def list_snoozed(
    project: Project | None,
    *,
    narrow: Callable[[QuerySet[Any]], QuerySet[Any]],
    now: datetime,
    is_reversed: bool = False,
    before: UUID | None,
    after: UUID | None,
) -> Page[Escalation]:
    # The escalation that is due next comes first.
    def fetch(place: UUID | None, downwards: bool) -> Iterable[Escalation]:
        rows = narrow(with_extras(Escalation.objects.snoozed(now), project))
        is_rising = downwards != is_reversed
        return next_to(rows, "snoozed_until", place, is_rising=is_rising)[: PAGE + 1]

    return read_list(fetch, before=before, after=after)


def find_listed(escalation_id: UUID) -> Escalation | None:
    return with_extras(Escalation.objects.filter(pk=escalation_id), None).first()


# ---- one escalation


def find_escalation(
    escalation_id: UUID, project: Project | None, *, now: datetime
) -> Escalation | None:
    """Return an escalation with all its columns, or None."""
    # The statement also reads the number of instructions `waiting` for the agent, whether the agent
    # is `silent`, the escalation `following` what was sent for the answer, the `people` to whom it
    # can be assigned, the changes of the task's payload, the project's running experiment, and the
    # inbox's `saved_views` in the page's project.
    waiting = Instruction.objects.awaiting_ack().filter(agent=OuterRef("agent"))
    silent = find_silent(now).filter(pk=OuterRef("agent"))
    following = Escalation.objects.filter(instruction=OuterRef("resent_as"))
    running = ContextExperiment.objects.filter(project=OuterRef("project"), ended_at=None)
    people = people_who_may(ANSWER, OuterRef("project"))
    return (
        Escalation.objects.filter(pk=escalation_id)
        .select_related(
            "agent__breaker",
            "assignee",
            "project",
            "instruction__agent",
            "resent_as",
            "task__plan",
            "permission__task",
            "policy",
        )
        .annotate(
            asked_again=asked_again(),
            waiting=CountOf(waiting.order_by().values("pk")),
            silent=Exists(silent),
            following=Subquery(following.order_by("-id").values("pk")[:1]),
            people=ArraySubquery(people.values("username")[:PEOPLE_SHOWN]),
            payload_changes=ArraySubquery(
                select_payload_changes(Event.objects.about(OuterRef("task_id"))).values("data")
            ),
            experiment_id=Subquery(running.values("pk")[:1]),
            experiment_element=Subquery(running.values("element")[:1]),
            experiment_share=Subquery(running.values("share")[:1]),
            saved_views=saved_as_json(project, "escalations"),
        )
        .first()
    )


COMMENT_KINDS = (Kind.ESCALATION_COMMENTED, Kind.ESCALATION_ASSIGNED)


def list_comments(escalation_id: UUID) -> list[Event]:
    # oldest first: the last one is the form's key
    rows = Event.objects.about(escalation_id).filter(kind__in=COMMENT_KINDS)
    return list(rows.order_by("-id")[:EARLIER])[::-1]


def find_by_instruction(instruction_id: UUID) -> Escalation | None:
    return next(iter(fetch_by_instruction(instruction_id)), None)


@compiled
def fetch_by_instruction(instruction_id: UUID) -> QuerySet[Escalation]:
    rows = Escalation.objects.filter(instruction=instruction_id).select_related("resent_as")
    return rows.order_by("-id")[:1]


CHAIN = """with recursive chain (id, before, depth) as (
    select id, resend_of_id, 0 from ledger_instruction where id = %s
    union all
    select i.id, i.resend_of_id, c.depth + 1 from ledger_instruction i, chain c
    where i.id = c.before and c.depth < %s
) select id from chain where depth > 0"""


def list_earlier_answers(instruction: Instruction) -> list[Escalation]:
    """Return the closed escalations of the instructions that this one repeats, oldest first."""
    if instruction.resend_of_id is None:
        return []
    chain = RawSQL(CHAIN, (instruction.pk, EARLIER))  # noqa: S611
    rows = closed().filter(instruction_id__in=chain)
    return list(rows.select_related("resent_as").order_by("id"))
