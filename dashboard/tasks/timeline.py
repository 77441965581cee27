"""Lay out a task's waits and attempts on a timeline (pure): percent along the axis."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from dashboard.tasks.listing.work_scale import Cut, WorkScale, build_work_scale
from dashboard.wording.formatting import counted, duration
from ledger.journal import Kind
from ledger.models import Attempt, Event, Task
from ledger.states import FINAL, BlockedReason, Outcome, TaskState

NARROWEST = 0.35  # percent, so that a short bar stays visible
MOST_TICKS = 6
PAD = 0.02
LETTER, MARGIN = 1.25, 2.0  # percent of a chart 520 pixels wide
MINUTE, HOUR, DAY = 60, 3600, 86_400
STEPS = (
    *(1, 2, 5, 10, 15, 30),
    *(MINUTE * n for n in (1, 2, 3, 5, 10, 15, 30)),
    *(HOUR * n for n in (1, 2, 3, 6, 12)),
    *(DAY * n for n in (1, 2, 7, 14, 30, 90, 365, 3650)),
)
ROOM = 9  # percent that the label "now" needs between two ticks
EDGE = 4  # percent from an edge within which a label is not centered

# the states in which a task waits, with the class and the label of their bars
WAITS = {
    TaskState.QUEUED: ("g-wait", "queued"),
    TaskState.RETRY: ("g-back", "backoff"),
    TaskState.BLOCKED: ("g-wait", "blocked"),
    TaskState.ESCALATED: ("g-open", "needs you"),
}
BLOCKED = {
    "dependency": "waiting for a task",
    "dependency_skipped": "a need was skipped",
    "breaker_open": "breaker open",
    "not_before": "waiting for its start time",
    "reported": str(BlockedReason.REPORTED.label),
}
ENDS = {
    Outcome.SUCCESS: ("g-ok", "t-ok", "done"),
    Outcome.FAILURE: ("g-bad", "t-bad", "failed"),
    Outcome.RELEASED: ("g-back", "t-back", "released"),
    Outcome.BLOCKED: ("g-back", "t-back", str(BlockedReason.REPORTED.label)),
    Outcome.ESCALATED: ("g-back", "t-back", "asked"),
    Outcome.ABORTED: ("g-wait", "", "aborted"),
    None: ("g-run", "t-run", ""),
}


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar on the timeline; its label is left out if there is no room."""

    x: float
    width: float
    css: str
    label: str
    label_css: str
    tip: str

    @property
    def has_room(self) -> bool:
        # The label must fit on the narrowest chart.
        return self.width >= LETTER * len(self.label) + MARGIN


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on the axis with its label."""

    x: float
    label: str
    at: str = ""  # the instant, if the label is its time of day

    @property
    def anchor(self) -> str:
        return anchor_of(self.x)


@dataclass(frozen=True, slots=True)
class Beat:
    """The span from the start of an attempt to its last heartbeat."""

    x: float
    last: float
    tip: str


@dataclass(frozen=True, slots=True)
class Timeline:
    ticks: list[Tick]
    waits: list[Bar]
    attempts: list[Bar]
    leases: list[tuple[float, float]]  # x and width of the time left on a lease
    beats: list[Beat]
    now: Tick | None  # None once the task has ended
    cuts: list[Cut]  # of long waits, unless the axis is the clock's
    working: timedelta
    waiting: timedelta
    whole: timedelta

    @property
    def finding(self) -> str:
        worked, waited = duration(self.working), duration(self.waiting)
        attempts = counted(len(self.attempts), "attempt")
        return f"{attempts} in {duration(self.whole)}: {worked} running, {waited} waiting."


@dataclass(frozen=True, slots=True)
class Scale:
    """Convert times to percent of the axis."""

    start: datetime
    length: float  # seconds

    def x(self, at: datetime) -> float:
        share = (at - self.start).total_seconds() / self.length
        return round(100 * min(max(share, 0.0), 1.0), 2)

    def span(self, start: datetime, end: datetime) -> tuple[float, float]:
        # A bar at the far end moves left to stay visible.
        x = self.x(start)
        width = max(self.x(end) - x, NARROWEST)
        return round(min(x, 100 - width), 2), round(width, 2)


AnyScale = Scale | WorkScale


def build_timeline(
    task: Task,
    events: Sequence[Event],
    attempts: Sequence[Attempt],
    *,
    now: datetime,
    by_work: bool = False,
) -> Timeline:
    """Return the timeline of a task; its events and attempts come oldest first."""
    # `by_work` gives attempts one scale and cuts long waits.
    is_over = task.state in FINAL and task.completed_at is not None
    end = task.completed_at if is_over and task.completed_at else now
    live = [attempt for attempt in attempts if attempt.outcome is None]
    last = max([end, *(attempt.lease_expires_at for attempt in live)])
    length = max((last - task.created_at).total_seconds(), 1.0) * (1 + PAD)
    scale: AnyScale = Scale(task.created_at, length)
    times = [(a.started_at, max(a.ended_at or last, a.started_at)) for a in attempts]
    if by_work and (found := build_work_scale(task.created_at, last, times, narrowest=NARROWEST)):
        scale = found
    working = sum(((a.ended_at or end) - a.started_at for a in attempts), timedelta())
    whole = max(end - task.created_at, timedelta())
    now_mark = None if is_over else Tick(scale.x(now), "now")
    return Timeline(
        ticks=ticks(scale, now_mark)
        if isinstance(scale, Scale)
        else attempt_ticks(scale, task.created_at, attempts, now_mark),
        waits=waits(events, scale, end=end),
        attempts=[attempt_bar(attempt, scale, end=end) for attempt in attempts],
        leases=[scale.span(now, a.lease_expires_at) for a in live if a.lease_expires_at > now],
        beats=[beat(attempt, scale) for attempt in attempts if attempt.heartbeat_at],
        now=now_mark,
        cuts=[] if isinstance(scale, Scale) else scale.cuts,
        working=working,
        waiting=max(whole - working, timedelta()),
        whole=whole,
    )


def round_up(now: datetime, start: datetime) -> datetime:
    """Return the end of the step that `now` is in: a percent of the time since `start`, or less."""
    # The chart of a task that has not ended then changes once in a step, not at each poll.
    passed = (now - start).total_seconds()
    step = max((each for each in STEPS if each <= passed / 100), default=1)
    return start + timedelta(seconds=math.ceil(passed / step) * step)


def waits(events: Sequence[Event], scale: AnyScale, *, end: datetime) -> list[Bar]:
    moves = [event for event in events if event.to_state]
    ends = [event.at for event in moves[1:]] + [max(end, moves[-1].at)] if moves else []
    return [
        wait_bar(event, until, scale)
        for event, until in zip(moves, ends, strict=True)
        if event.to_state in WAITS
    ]


def wait_bar(event: Event, until: datetime, scale: AnyScale) -> Bar:
    css, label = WAITS[TaskState(event.to_state or "")]
    reason = str(event.data.get("reason") or event.data.get("blocked_reason") or "")
    if event.to_state == TaskState.BLOCKED:
        reason = reason or ("dependency" if event.kind == Kind.TASK_CREATED else "")
        label = BLOCKED.get(reason, label)
        css = "g-open" if reason in ("breaker_open", "reported") else css
    text_css = {"g-open": "t-bad", "g-back": "t-back"}.get(css, "")
    x, width = scale.span(event.at, until)
    took = duration(until - event.at).replace(" ", NARROW)
    tip = f"{label[:1].upper()}{label[1:]}|for {took}"
    return Bar(x, width, css, label, text_css, tip)


NARROW = "\u202f"  # charts.js takes the text after the last space of a tip for its number


def attempt_bar(attempt: Attempt, scale: AnyScale, *, end: datetime) -> Bar:
    css, text_css, result = ENDS[Outcome(attempt.outcome) if attempt.outcome else None]
    failure = getattr(attempt, "failure", None)
    if failure and failure.type == "timeout":
        result = "timed out"
    until = attempt.ended_at or end
    x, width = scale.span(attempt.started_at, until)
    took = duration(until - attempt.started_at)
    tip = f"Attempt {attempt.number}: {result or 'running'}|for {took.replace(' ', NARROW)}"
    bar = Bar(x, width, css, f"{attempt.number}, {result} after {took}", text_css, tip)
    return bar if result and bar.has_room else replace(bar, label=str(attempt.number))


def beat(attempt: Attempt, scale: AnyScale) -> Beat:
    at = attempt.heartbeat_at or attempt.started_at
    return Beat(
        scale.x(attempt.started_at),
        scale.x(at),
        f"Attempt {attempt.number}|heartbeats {attempt.heartbeats}",
    )


def ticks(scale: Scale, now: Tick | None) -> list[Tick]:
    # A short timeline has ticks at seconds since its start, others at round times of day.
    step = next((each for each in STEPS if scale.length / each <= MOST_TICKS), STEPS[-1])
    start = scale.start.astimezone(UTC)
    if step < MINUTE:
        count = int(scale.length // step) + 1
        marks = [(start + timedelta(seconds=n * step), f"+{n * step} s", "") for n in range(count)]
        marks[0] = (start, "0", "")
    else:
        first = -(-start.timestamp() // step) * step
        count = max(int((scale.length - (first - start.timestamp())) // step) + 1, 0)
        times = [datetime.fromtimestamp(first + n * step, UTC) for n in range(count)]
        marks = [(at, *label_of(at, step)) for at in times]
    found = [Tick(scale.x(at), label, iso) for at, label, iso in marks]
    return [tick for tick in found if now is None or abs(tick.x - now.x) > ROOM]


def attempt_ticks(
    scale: WorkScale, start: datetime, attempts: Sequence[Attempt], now: Tick | None
) -> list[Tick]:
    found: list[Tick] = []
    for at in [start, *(attempt.started_at for attempt in attempts)]:
        at = at.astimezone(UTC)
        tick = Tick(scale.x(at), f"{at:%H:%M}", at.isoformat(timespec="seconds"))
        if all(abs(tick.x - other.x) > ROOM for other in [*found, *([now] if now else [])]):
            found.append(tick)
    return found


def anchor_of(x: float) -> str:
    return "start" if x < EDGE else "end" if x > 100 - EDGE else "middle"


def label_of(at: datetime, step: int) -> tuple[str, str]:
    if step >= DAY:
        return f"{at.day} {at:%b}", ""
    return f"{at:%H:%M}", at.isoformat(timespec="seconds")


# ---- the history


@dataclass(frozen=True, slots=True)
class Move:
    """An event of the history, and how long the task stayed in the state it led to."""

    event: Event
    stayed: timedelta | None  # None if the state did not change, or has not changed since
    since: datetime | None = None  # where the task is still in the state


def list_moves(events: Sequence[Event]) -> list[Move]:
    led = [event for event in events if event.to_state]
    stays = {a.pk: b.at - a.at for a, b in pairwise(led)}
    current = led[-1] if led and led[-1].to_state not in FINAL else None
    return [
        Move(event, stays.get(event.pk), event.at if event is current else None)
        for event in reversed(events)
    ]
