"""Build the rows of a plan's tasks: each with its needs and its status (pure)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from dashboard.agents.presence import breaker_state
from dashboard.charts.dependencies import MET, NeedLink, TaskMark, key_of, natural_key, short_of
from dashboard.plans.waves import assign_waves
from dashboard.tasks import waiting
from dashboard.wording.badges import task_badge
from dashboard.wording.formatting import duration
from dashboard.wording.status_text import StatusText
from ledger.models import Plan
from ledger.models.plan import PlanState
from ledger.states import BlockedReason, BreakerState, TaskState
from ledger.values.text import truncate

MAX_WAVES = 8
MAX_ROWS = 100
BLOCKERS_NAMED = 2
RED = (TaskState.FAILED, TaskState.ABORTED, TaskState.ESCALATED)
ENDED = {TaskState.FAILED: "failed", TaskState.ABORTED: "was aborted"}


@dataclass(frozen=True, slots=True)
class NeedLabel:
    """A need as a row shows it: a short ref, colored by its state."""

    id: UUID | None
    label: str
    tip: str
    css: str


@dataclass(frozen=True, slots=True)
class TaskRow:
    task: Any
    key: str
    needs: list[NeedLabel]
    status: StatusText


@dataclass(frozen=True, slots=True)
class Wave:
    """Tasks that can run in parallel; number 0 means that the tasks are not split into waves."""

    number: int
    marks: list[TaskMark]


def build_rows(
    plan: Plan,
    tasks: Sequence[Any],
    links: Sequence[NeedLink],
    blockers: Mapping[UUID, list[NeedLink]],
    *,
    now: datetime,
) -> dict[UUID, TaskRow]:
    needs: dict[UUID, list[NeedLink]] = {task.pk: [] for task in tasks}
    for link in links:
        if link.task in needs:
            needs[link.task].append(link)
    return {
        task.pk: TaskRow(
            task,
            key_of(task.ref),
            [
                label_need(link, plan.ref)
                for link in sorted(needs[task.pk], key=lambda link: natural_key(link.ref))
            ],
            describe_status(task, plan, blockers.get(task.pk, []), now=now),
        )
        for task in tasks
    }


def label_need(link: NeedLink, plan: str) -> NeedLabel:
    if link.need is None:
        return NeedLabel(None, link.ref, f"{link.ref}: {link.title}", "is-unmet")
    state = task_badge(link.state).label.lower()
    css = "" if link.state in MET else "is-red" if link.state in RED else "is-unmet"
    label = short_of(link.ref, plan=plan) or link.title
    return NeedLabel(link.need, label, f"{link.ref or link.title}, {state}: {link.title}", css)


def describe_status(
    task: Any, plan: Plan, blockers: list[NeedLink], *, now: datetime
) -> StatusText:
    match task.state:
        case TaskState.DONE:
            return StatusText(duration(task.worked) if task.worked is not None else "")
        case TaskState.QUEUED | TaskState.RETRY if plan.state == PlanState.PAUSED:
            return StatusText("on hold, plan paused", "calm", "pause")
        case TaskState.QUEUED | TaskState.RETRY if plan.not_before and plan.not_before > now:
            return StatusText("on hold, plan not started", "calm", "clock")
        case TaskState.QUEUED:
            return describe_queued(task)
        case TaskState.RUNNING if (
            not task.abort_requested_at and (task.lease_ends_at or now) >= now
        ):
            return StatusText("", "calm", "beat", since=task.running_since or now)
        case TaskState.BLOCKED if task.blocked_reason == BlockedReason.DEPENDENCY:
            return describe_blockers(blockers, plan.ref)
    return waiting.describe_status(task, now=now)


def describe_queued(task: Any) -> StatusText:
    if task.agent.paused:
        return StatusText(f"held, {task.agent.name} is paused", "calm", "pause")
    if breaker_state(task.agent) == BreakerState.OPEN:
        return StatusText(f"held, {task.agent.name}’s breaker open", "calm", "c-open")
    return StatusText("in queue", "calm", "clock")


def describe_blockers(blockers: list[NeedLink], plan: str) -> StatusText:
    # A blocker that has failed comes first.
    for link in blockers:
        if link.state in ENDED:
            text = f"{name_of(link, plan)} {ENDED[TaskState(link.state)]}"
            return StatusText(text, "red", "dep")
    if not blockers:
        return StatusText("waiting for another task", "calm", "dep")
    names = ", ".join(name_of(link, plan) for link in blockers[:BLOCKERS_NAMED])
    more = f" +{len(blockers) - BLOCKERS_NAMED}" if len(blockers) > BLOCKERS_NAMED else ""
    return StatusText(f"waiting for {names}{more}", "calm", "dep")


def name_of(link: NeedLink, plan: str) -> str:
    if not link.ref:
        return truncate(link.title, waiting.TITLE_LENGTH)
    return key_of(link.ref) if link.ref.startswith(f"{plan}:") else link.ref


def split_into_waves(marks: Sequence[TaskMark], links: Iterable[NeedLink]) -> list[Wave]:
    wave_of = assign_waves([mark.pk for mark in marks], links)
    waves: dict[int, list[TaskMark]] = {}
    for mark in marks:
        waves.setdefault(wave_of[mark.pk], []).append(mark)
    # a chain, a flat list or very many waves would have more headings than help
    if 1 < len(waves) <= MAX_WAVES and len(waves) < len(marks):
        return [Wave(number, waves[number]) for number in sorted(waves)]
    return [Wave(0, [mark for number in sorted(waves) for mark in waves[number]])]


def sort_by_attempts(marks: Sequence[TaskMark]) -> list[Wave]:
    """Return all tasks in one unnumbered wave, those with the most attempts first."""
    return [Wave(0, sorted(marks, key=lambda mark: -mark.attempts))]


def limit_rows(waves: list[Wave]) -> list[Wave]:
    left, limited = MAX_ROWS, []
    for wave in waves:
        if left > 0:
            limited.append(Wave(wave.number, wave.marks[:left]))
        left -= len(wave.marks)
    return limited
