"""How far a plan got, in figures and words (pure): bars, the head of its page, what went wrong."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from dashboard.badges import task_badge
from dashboard.deadletters.causes import CAUSE_LENGTH, find_cause
from dashboard.dependencies import MET, key_of, natural_key
from dashboard.formatting import counted, wait_duration
from dashboard.sparklines import Bars, bars
from ledger.models import Plan
from ledger.states import FINAL, TaskState
from ledger.text import truncate

# along the bar: what is over, what moves, what needs somebody, what waits
ALONG = (
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
# what is told of in a line of the list beside the bar
TOLD = (
    TaskState.ESCALATED,
    TaskState.FAILED,
    TaskState.RUNNING,
    TaskState.RETRY,
    TaskState.BLOCKED,
    TaskState.QUEUED,
)
SETTLED = (*FINAL, TaskState.ESCALATED)
PATTERNS_SHOWN = 5
BINS, TALL = 12, 14


@dataclass(slots=True)
class Tally:
    """How many of a plan's tasks are in each state, and whose they are."""

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
        """Done, or gone on without: what counts as finished."""
        return sum(self.states[state] for state in MET)

    @property
    def percent(self) -> int:
        """Rounded down: 100 only when nothing is left."""
        return 100 * self.met // self.total if self.total else 0


# ---- the bar


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of the bar, in percent of it."""

    state: str
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Bar:
    segments: list[Segment]
    tip: str

    @property
    def finding(self) -> str:
        """The bar in a sentence, for readers of a screen."""
        return ", ".join(self.tip.split("|")[1:]) or "no tasks"


@dataclass(frozen=True, slots=True)
class Count:
    label: str
    icon: str
    css: str
    n: int


def bar(states: Counter[str]) -> Bar:
    total = states.total()
    found, x = [], 0.0
    for state in ALONG:
        if n := states[state]:
            width = 100 * n / total
            found.append(Segment(state.value, round(x, 2), round(width, 2)))
            x += width
    said = [f"{sum(states[state] for state in MET)} of {total} finished"]
    said += [f"{task_badge(state).label} {states[state]}" for state in ALONG if states[state]]
    return Bar(found, "|".join(said))


def counts(states: Counter[str]) -> list[Count]:
    """What is not over, and what failed."""
    badges = ((task_badge(state), states[state]) for state in TOLD)
    return [Count(badge.label, badge.icon, badge.css, n) for badge, n in badges if n]


# ---- the head of the page


def sentence(tally: Tally) -> str:
    """Return the open tasks in a sentence: 2 running, 1 waiting to retry, 7 pending."""
    run, again, failed = (
        tally.states[s] for s in (TaskState.RUNNING, TaskState.RETRY, TaskState.FAILED)
    )
    aborted = tally.states[TaskState.ABORTED]
    wait = tally.states[TaskState.QUEUED] + tally.states[TaskState.BLOCKED]
    said = [
        f"{run} running" if run else "",
        f"{again} waiting to retry" if again else "",
        f"{wait} pending" if wait else "",
        f"{failed} failed" if failed else "",
        f"{aborted} aborted" if aborted else "",
    ]
    line = ", ".join(filter(None, said))
    return f"{line}." if line else ""


def needs_you(tasks: Iterable[Any]) -> str:
    """Return the sentence about open questions: task-7 needs an answer; 3 tasks need an answer."""
    names = [key_of(task.ref) for task in tasks]
    if not names:
        return ""
    if len(names) == 1:
        return f"{names[0]} needs an answer"
    return f"{len(names)} tasks need an answer"


def lasted(plan: Plan, *, now: datetime) -> str:
    """1 h 20 m so far; took 2 h 05 m."""
    end = plan.aborted_at or plan.completed_at
    length = max((end or now) - plan.created_at, timedelta())
    said = wait_duration(length.total_seconds())
    if plan.aborted_at:
        return f"aborted after {said}"
    return f"took {said}" if plan.completed_at else f"{said} so far"


# ---- figures


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    value: str
    note: str = ""
    is_red: bool = False


def figures(
    tally: Tally, tasks: Sequence[Any], failed: Counter[UUID], asked: int, open_questions: int
) -> list[Figure]:
    """The metrics of the retry summary, while the plan is under way.

    First-attempt success and retry success are shares of what is settled, so they do not begin
    at nothing and grow.
    """
    started = [task for task in tasks if task.attempts]
    retried = [
        task
        for task in started
        if failed[task.pk] and (task.attempts > 1 or task.state == TaskState.RETRY)
    ]
    settled = [task for task in started if task.state in SETTLED]
    first = sum(task.state == TaskState.DONE and not failed[task.pk] for task in settled)
    again = [task for task in retried if task.state in SETTLED]
    worked = sum(task.state == TaskState.DONE for task in again)
    skipped = tally.states[TaskState.SKIPPED]
    return [
        Figure("Tasks", str(tally.total), f"{len(started)} started"),
        share("First-attempt success", first, len(settled)),
        share("Retried tasks", len(retried), len(started)),
        share("Retry success", worked, len(again), " finished"),
        Figure(
            "Escalations",
            str(asked),
            f"{open_questions} open" if open_questions else "",
            bool(open_questions),
        ),
        Figure("Skipped", str(skipped), f"of {tally.total}" if skipped else ""),
    ]


def share(name: str, part: int, whole: int, of: str = "") -> Figure:
    if not whole:
        return Figure(name, "–", f"none{of or ' yet'}")
    return Figure(name, f"{round(100 * part / whole)}%", f"{part} of {whole}{of}")


# ---- what went wrong


@dataclass(frozen=True, slots=True)
class Failed:
    """One failure of one task."""

    task: UUID
    type: str
    message: str
    at: datetime
    pattern: UUID | None = None  # that it was put into
    template: str | None = None  # what its pattern says

    @property
    def cause(self) -> str:
        return truncate(self.template, CAUSE_LENGTH) if self.template else find_cause(self.message)


@dataclass(frozen=True, slots=True)
class Pattern:
    """Failures that say the same, once numbers, paths and names are taken out."""

    cause: str
    count: int
    types: str
    keys: str
    bars: Bars
    id: UUID | None


def patterns(failures: Sequence[Failed], refs: dict[UUID, str]) -> list[Pattern]:
    """The most frequent first; each with when it happened, from the first failure to the last."""
    groups: dict[str, list[Failed]] = {}
    for each in failures:
        groups.setdefault(each.cause, []).append(each)
    if not groups:
        return []
    start = failures[0].at
    length = max((failures[-1].at - start).total_seconds(), 1.0)
    found = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    return [pattern(name, group, refs, start, length) for name, group in found[:PATTERNS_SHOWN]]


def pattern(
    name: str, group: list[Failed], refs: dict[UUID, str], start: datetime, length: float
) -> Pattern:
    bins = [0] * BINS
    for each in group:
        bins[min(int(BINS * (each.at - start).total_seconds() / length), BINS - 1)] += 1
    whose = sorted({refs[each.task] for each in group if each.task in refs}, key=natural_key)
    keys = ", ".join(key_of(ref) for ref in whose[:3])
    more = f" and {counted(len(whose) - 3, 'other')}" if len(whose) > 3 else ""
    types = ", ".join(sorted({each.type for each in group}))
    drawn = bars(bins, [0] * BINS, tall=TALL)
    return Pattern(name, len(group), types, f"{keys}{more}", drawn, group[-1].pattern)


def alike(found: Sequence[Pattern]) -> int:
    """How many failures are not the only one of their cause."""
    return sum(each.count for each in found if each.count > 1)
