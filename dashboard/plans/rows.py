"""The lines of a plan's page (pure): each task with what it needs and what it waits for now."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from dashboard.badges import task_badge
from dashboard.dependencies import MET, NeedLink, TaskMark, key_of, natural_key, short_of
from dashboard.formatting import duration
from dashboard.plans.waves import waves
from dashboard.status_text import StatusText
from dashboard.tasks import waiting
from ledger.models import Plan
from ledger.models.plan import PlanState
from ledger.states import BlockedReason, BreakerState, TaskState
from ledger.text import truncate

# a chain, or more waves than this: told apart they would say nothing
MOST_WAVES = 8
SHOWN = 100
NAMED = 2
NOTED = (TaskState.FAILED, TaskState.ABORTED, TaskState.ESCALATED)
STUCK = {TaskState.FAILED: "failed", TaskState.ABORTED: "was aborted"}


@dataclass(frozen=True, slots=True)
class Needed:
    """A need in a line: the end of its ref, and how it stands."""

    id: UUID | None
    label: str
    tip: str
    css: str


@dataclass(frozen=True, slots=True)
class Line:
    row: Any
    key: str
    needs: list[Needed]
    now: StatusText


@dataclass(frozen=True, slots=True)
class Wave:
    """Tasks that can run side by side; number 0 where waves are not told apart."""

    number: int
    marks: list[TaskMark]


def lines(
    plan: Plan,
    rows: Sequence[Any],
    links: Sequence[NeedLink],
    held: Mapping[UUID, list[NeedLink]],
    *,
    now: datetime,
) -> dict[UUID, Line]:
    """A line for each of these tasks; `held` is what really is in their way."""
    needs: dict[UUID, list[NeedLink]] = {row.pk: [] for row in rows}
    for link in links:
        if link.task in needs:
            needs[link.task].append(link)
    return {
        row.pk: Line(
            row,
            key_of(row.ref),
            [
                needed(link, plan.ref)
                for link in sorted(needs[row.pk], key=lambda link: natural_key(link.ref))
            ],
            waits(row, plan, held.get(row.pk, []), now=now),
        )
        for row in rows
    }


def needed(link: NeedLink, plan: str) -> Needed:
    if link.need is None:
        return Needed(None, link.ref, f"{link.ref}: {link.title}", "is-unmet")
    word = task_badge(link.state).label.lower()
    css = "" if link.state in MET else "is-red" if link.state in NOTED else "is-unmet"
    label = short_of(link.ref, plan=plan) or link.title
    return Needed(link.need, label, f"{link.ref or link.title}, {word}: {link.title}", css)


def waits(row: Any, plan: Plan, held: list[NeedLink], *, now: datetime) -> StatusText:
    """How long it worked, or what it waits for."""
    match row.state:
        case TaskState.DONE:
            return StatusText(duration(row.worked) if row.worked is not None else "")
        case TaskState.QUEUED | TaskState.RETRY if plan.state == PlanState.PAUSED:
            return StatusText("held, plan paused", "calm", "pause")
        case TaskState.QUEUED:
            return queued(row)
        case TaskState.RUNNING if not row.abort_requested_at and (row.lease_ends_at or now) >= now:
            return StatusText(duration(now - (row.running_since or now)), "calm", "beat")
        case TaskState.BLOCKED if row.blocked_reason == BlockedReason.DEPENDENCY:
            return behind(held, plan.ref)
    return waiting.describe_status(row, now=now)


def queued(row: Any) -> StatusText:
    if row.agent.paused:
        return StatusText(f"held, {row.agent.name} is paused", "calm", "pause")
    if waiting.breaker_state(row) == BreakerState.OPEN:
        return StatusText(f"held, breaker of {row.agent.name} open", "calm", "c-open")
    return StatusText("in queue", "calm", "clock")


def behind(held: list[NeedLink], plan: str) -> StatusText:
    """What it waits for in the end; a failure upstream is said first."""
    for link in held:
        if link.state in STUCK:
            return StatusText(f"{named(link, plan)} {STUCK[TaskState(link.state)]}", "red", "dep")
    if not held:
        return StatusText("waiting for another task", "calm", "dep")
    names = ", ".join(named(link, plan) for link in held[:NAMED])
    more = f" +{len(held) - NAMED}" if len(held) > NAMED else ""
    return StatusText(f"waiting for {names}{more}", "calm", "dep")


def named(link: NeedLink, plan: str) -> str:
    if not link.ref:
        return truncate(link.title, waiting.TITLE_LENGTH)
    return key_of(link.ref) if link.ref.startswith(f"{plan}:") else link.ref


def in_waves(marks: Sequence[TaskMark], links: Iterable[NeedLink]) -> list[Wave]:
    """The tasks by wave; in one without a number where waves would say nothing."""
    wave_of = waves([mark.pk for mark in marks], links)
    found: dict[int, list[TaskMark]] = {}
    for mark in marks:
        found.setdefault(wave_of[mark.pk], []).append(mark)
    if 1 < len(found) <= MOST_WAVES and len(found) < len(marks):
        return [Wave(number, found[number]) for number in sorted(found)]
    return [Wave(0, [mark for number in sorted(found) for mark in found[number]])]


def by_attempts(marks: Sequence[TaskMark]) -> list[Wave]:
    """The same, those that took the most attempts first."""
    return [Wave(0, sorted(marks, key=lambda mark: -mark.attempts))]


def cut(found: list[Wave]) -> list[Wave]:
    """As many tasks as a page can bear."""
    left, kept = SHOWN, []
    for wave in found:
        if left > 0:
            kept.append(Wave(wave.number, wave.marks[:left]))
        left -= len(wave.marks)
    return kept
