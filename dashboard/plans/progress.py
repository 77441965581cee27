"""Describe a plan's progress (pure): the bar, the sentences beside it, and the figures."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from dashboard.charts.dependencies import MET, key_of
from dashboard.wording.badges import task_badge
from dashboard.wording.formatting import count_tokens, dollars, wait_duration
from ledger.models import Plan
from ledger.states import FINAL, TaskState
from retries.insight.forecasts.stored import Reason, StoredForecast, StoredRange

# the order of the states along the bar
BAR_ORDER = (
    TaskState.DONE,
    TaskState.SKIPPED,
    TaskState.ABORTED,
    TaskState.RUNNING,
    TaskState.RETRY,
    TaskState.FAILED,
    TaskState.ESCALATED,
    TaskState.BLOCKED,
    TaskState.QUEUED,
)
# the states that the list counts beside the bar
LIST_ORDER = (
    TaskState.ESCALATED,
    TaskState.FAILED,
    TaskState.RUNNING,
    TaskState.RETRY,
    TaskState.BLOCKED,
    TaskState.QUEUED,
)
SETTLED = (*FINAL, TaskState.ESCALATED)


@dataclass(slots=True)
class TaskCounts:
    """The number of a plan's tasks by state and by agent."""

    states: Counter[str] = field(default_factory=Counter)
    agents: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        return self.states.total()

    @property
    def over(self) -> int:
        return sum(self.states[state] for state in FINAL)

    @property
    def met(self) -> int:
        """Return the number of finished tasks: those done or skipped."""
        return sum(self.states[state] for state in MET)

    @property
    def percent(self) -> int:
        # rounded down, so that 100 means that nothing is left
        return 100 * self.met // self.total if self.total else 0


# ---- the bar


@dataclass(frozen=True, slots=True)
class BarSegment:
    """A part of the bar, in percent of its width."""

    state: str
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class ProgressBar:
    segments: list[BarSegment]
    tip: str

    @property
    def summary(self) -> str:
        return ", ".join(self.tip.split("|")[1:]) or "no tasks"


@dataclass(frozen=True, slots=True)
class StateCount:
    label: str
    icon: str
    css: str
    n: int


def build_bar(states: Counter[str]) -> ProgressBar:
    total = states.total()
    segments, x = [], 0.0
    for state in BAR_ORDER:
        if n := states[state]:
            width = 100 * n / total
            segments.append(BarSegment(state.value, round(x, 2), round(width, 2)))
            x += width
    tip = [f"{sum(states[state] for state in MET)} of {total} finished"]
    tip += [f"{task_badge(state).label} {states[state]}" for state in BAR_ORDER if states[state]]
    return ProgressBar(segments, "|".join(tip))


def list_state_counts(states: Counter[str]) -> list[StateCount]:
    badges = ((task_badge(state), states[state]) for state in LIST_ORDER)
    return [StateCount(badge.label, badge.icon, badge.css, n) for badge, n in badges if n]


# ---- the sentences beside it


def describe_open_tasks(counts: TaskCounts) -> str:
    """Return the open and failed tasks as a sentence: 2 running, 1 waiting to retry, 7 pending."""
    states = counts.states
    pending = states[TaskState.QUEUED] + states[TaskState.BLOCKED]
    numbers = (
        (states[TaskState.RUNNING], "running"),
        (states[TaskState.RETRY], "waiting to retry"),
        (pending, "pending"),
        (states[TaskState.FAILED], "failed"),
        (states[TaskState.ABORTED], "aborted"),
    )
    text = ", ".join(f"{number} {word}" for number, word in numbers if number)
    return f"{text}." if text else ""


def describe_open_questions(tasks: Iterable[Any]) -> str:
    """Return which tasks ask a question: task-7 needs an answer; 3 tasks need an answer."""
    keys = [key_of(task.ref) for task in tasks]
    if not keys:
        return ""
    return f"{keys[0]} needs an answer" if len(keys) == 1 else f"{len(keys)} tasks need an answer"


def describe_duration(plan: Plan) -> str:
    """Return how long a plan took, or an empty string if it has not ended."""
    end = plan.aborted_at or plan.completed_at
    if end is None:
        return ""
    length = wait_duration(max(end - plan.created_at, timedelta()).total_seconds())
    return f"aborted after {length}" if plan.aborted_at else f"took {length}"


# ---- the forecast


@dataclass(frozen=True, slots=True)
class ForecastLine:
    """A plan's forecast as the page says it; `ends_at` is None where `missing` says why."""

    ends_at: StoredRange[datetime] | None
    cost: StoredRange[str] | None
    basis: str
    calibration: str
    missing: str


def describe_forecast(found: StoredForecast) -> ForecastLine | None:
    if found.reason == Reason.NOT_UNDER_WAY:
        return None
    known = found.calibration
    format_cost = dollars if found.cost_unit == "usd" else count_tokens
    return ForecastLine(
        ends_at=found.ends_at,
        cost=found.cost.convert(format_cost) if found.cost else None,
        basis=f"from {found.cases:,} attempts",
        calibration=(
            f"{known.inside} of {known.plans} plans ended inside such an interval"
            if known.share is not None
            else ""
        ),
        missing=found.sentence or "",
    )


# ---- the figures


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    value: str
    note: str = ""
    is_red: bool = False


def build_figures(
    counts: TaskCounts,
    tasks: Sequence[Any],
    failures: Counter[UUID],
    questions: int,
    open_questions: int,
) -> list[Figure]:
    started = [task for task in tasks if task.attempts]
    retried = [
        task
        for task in started
        if failures[task.pk] and (task.attempts > 1 or task.state == TaskState.RETRY)
    ]
    # shares of settled tasks: shares of all tasks would start at 0 and grow
    settled = [task for task in started if task.state in SETTLED]
    first = sum(task.state == TaskState.DONE and not failures[task.pk] for task in settled)
    settled_retries = [task for task in retried if task.state in SETTLED]
    successes = sum(task.state == TaskState.DONE for task in settled_retries)
    skipped = counts.states[TaskState.SKIPPED]
    return [
        Figure("Tasks", str(counts.total), f"{len(started)} started"),
        share_figure("First-attempt success", first, len(settled)),
        share_figure("Retried tasks", len(retried), len(started)),
        share_figure("Retry success", successes, len(settled_retries), " finished"),
        Figure(
            "Escalations",
            str(questions),
            f"{open_questions} open" if open_questions else "",
            bool(open_questions),
        ),
        Figure("Skipped", str(skipped), f"of {counts.total}" if skipped else ""),
    ]


def share_figure(name: str, part: int, whole: int, of: str = "") -> Figure:
    if not whole:
        return Figure(name, "–", f"none{of or ' yet'}")
    return Figure(name, f"{round(100 * part / whole)}%", f"{part} of {whole}{of}")
