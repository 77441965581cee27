"""What the inbox asks the database: open questions, settled ones, and one with its story."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from django.db.models.expressions import RawSQL
from django.db.models.functions import Coalesce, Left

from dashboard.formatting import COUNT_CAP
from dashboard.shared_queries import CountOf, of_project, open_escalations, title_of
from ledger.agents import find_silent
from ledger.journal import Kind
from ledger.models import Event, Instruction, Project
from retries.escalations import answer_outcome
from retries.escalations.answer_outcome import Aftermath
from retries.models import Escalation
from retries.states import EscalationState

PAGE = 30
RECENT = 4
SNIPPET = 120
FORMER = 20  # nobody reads further back than that

# what a list leaves in the table
HEAVY_OF_INSTRUCTION = ("content", "content_sha256", "expect_match", "acknowledged_by", "note")
HEAVY = (
    "fix",
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
)


# ---- the list


@dataclass(frozen=True, slots=True)
class Page:
    """A stretch of the list, and whether there is more on either side."""

    lines: list[Escalation]  # with `start`
    newer: UUID | None
    older: UUID | None


def open_count(project: Project | None) -> int:
    return open_escalations(project).count()


def answered_count(project: Project | None) -> int:
    """How many there are, up to COUNTED."""
    return of_project(answered(), project).order_by()[:COUNT_CAP].count()


def answered() -> QuerySet[Escalation]:
    return Escalation.objects.exclude(state=EscalationState.OPEN)


def lines(rows: QuerySet[Escalation], project: Project | None) -> QuerySet[Any]:
    """The rows with what a line of the list shows."""
    rows = of_project(rows, project)
    return (
        rows.select_related("agent", "project", "instruction", "resent_as", "task")
        .defer(*HEAVY)
        .annotate(start=start(), asks=Left("question", SNIPPET), asked_again=asked_again())
    )


def asked_again() -> Subquery:
    """After which attempt the same task needed a person again."""
    later = Escalation.objects.filter(task=OuterRef("task"), pk__gt=OuterRef("pk"))
    return Subquery(later.order_by("id").values("attempts")[:1])


def since(rows: Iterable[Escalation]) -> dict[UUID, Aftermath]:
    """What came of the answers whose tasks were restarted or replayed: most were not, and cost no
    query."""
    return answer_outcome.of(row for row in rows if row.task and row.task.replaced_by_id)


def start() -> Coalesce:
    """How it begins, what it is about: an instruction's words or a task's title."""
    return Coalesce(Left("instruction__content", SNIPPET), title_of("task__"))


def open_page(project: Project | None, *, before: UUID | None, after: UUID | None) -> Page:
    """Open ones, the longest waiting first."""
    rows = lines(Escalation.objects.open(), project)
    found = cut(rows, ("id",), before=before, after=after, newest_first=False)
    if not found.lines and (before or after):  # all of them were answered meanwhile
        return open_page(project, before=None, after=None)
    return found


def answered_page(project: Project | None, *, before: UUID | None, after: UUID | None) -> Page:
    """Answered ones, the last answer first."""
    return cut(
        lines(answered(), project),
        ("closed_at", "id"),
        before=before,
        after=after,
        newest_first=True,
    )


def last_answered(project: Project | None) -> list[Escalation]:
    return list(lines(answered(), project).order_by("-closed_at", "-id")[:RECENT])


def cut(
    rows: QuerySet[Any],
    keys: tuple[str, ...],
    *,
    before: UUID | None,
    after: UUID | None,
    newest_first: bool,
) -> Page:
    """The rows next to a place, by keyset: no page is slower than the first."""
    place = before or after
    downwards = bool(before) if place else newest_first  # towards older ones
    if place:
        rows = rows.filter(beyond(place, keys, "lt" if downwards else "gt"))
    order = [f"-{key}" if downwards else key for key in keys]
    found = list(rows.order_by(*order)[: PAGE + 1])
    more, found = len(found) > PAGE, found[:PAGE]
    if not found:
        return Page([], None, None)
    oldest, newest = (found[-1], found[0]) if downwards else (found[0], found[-1])
    return Page(
        found if downwards == newest_first else found[::-1],
        newer=newest.pk if (place if downwards else more) else None,
        older=oldest.pk if (more if downwards else place) else None,
    )


def beyond(place: UUID, keys: tuple[str, ...], side: str) -> Q:
    """Rows whose keys come after those of the row at `place`, seen to one side."""
    if keys == ("id",):
        return Q(**{f"id__{side}": place})
    at = Escalation.objects.filter(pk=place).values(keys[0])[:1]
    nearer = Q(**{keys[0]: at, f"id__{side}": place})
    # the first condition lets the index find the place; the second is exact
    return Q(**{f"{keys[0]}__{side}e": at}) & (Q(**{f"{keys[0]}__{side}": at}) | nearer)


def next_open(project: Project | None, *, but: UUID) -> Escalation | None:
    """The longest waiting one beside `but`."""
    rows = lines(Escalation.objects.open().oldest_first(), project)
    return rows.exclude(pk=but).first()


# ---- one


def exists(escalation_id: UUID) -> bool:
    return Escalation.objects.filter(id=escalation_id).exists()


def one(escalation_id: UUID, *, now: datetime) -> Escalation | None:
    """One with all its columns.

    Beside it how many are `waiting` for its agent, whether that is `silent`, and the question that
    came `following` what was sent for the answer.
    """
    waiting = Instruction.objects.awaiting_ack().filter(agent=OuterRef("agent"))
    silent = find_silent(now).filter(pk=OuterRef("agent"))
    following = Escalation.objects.filter(instruction=OuterRef("resent_as"))
    return (
        Escalation.objects.filter(pk=escalation_id)
        .select_related(
            "agent", "assignee", "project", "instruction__agent", "resent_as", "task__plan"
        )
        .annotate(
            asked_again=asked_again(),
            waiting=CountOf(waiting.order_by().values("pk")),
            silent=Exists(silent),
            following=Subquery(following.order_by("-id").values("pk")[:1]),
        )
        .first()
    )


REMARKS = (Kind.ESCALATION_COMMENTED, Kind.ESCALATION_ASSIGNED)


def remarks(escalation_id: UUID) -> list[Event]:
    """What people said beside an answer, and whom they gave it to, oldest first."""
    rows = Event.objects.filter(subject_id=escalation_id, kind__in=REMARKS)
    return list(rows.order_by("id")[:FORMER])


def about(instruction_id: UUID) -> Escalation | None:
    """The question that an instruction ended in, if it did: the last one, answered or not."""
    rows = Escalation.objects.filter(instruction=instruction_id).select_related("resent_as")
    return rows.order_by("-id").first()


CHAIN = """with recursive chain (id, before, depth) as (
    select id, resend_of_id, 0 from ledger_instruction where id = %s
    union all
    select i.id, i.resend_of_id, c.depth + 1 from ledger_instruction i, chain c
    where i.id = c.before and c.depth < %s
) select id from chain where depth > 0"""


def former(instruction: Instruction) -> list[Escalation]:
    """What people answered to the instructions that this one repeats, oldest first."""
    if instruction.resend_of_id is None:
        return []
    chain = RawSQL(CHAIN, (instruction.pk, FORMER))  # noqa: S611
    rows = answered().filter(instruction_id__in=chain)
    return list(rows.select_related("resent_as").order_by("id"))
