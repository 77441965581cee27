"""Where the bars of a task's waits and attempts stand (pure): percent along the axis."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from dashboard.formatting import duration
from ledger.journal import Kind
from ledger.models import Attempt, Event, Task
from ledger.states import FINAL, Outcome, TaskState

NARROWEST = 0.35  # percent: what is there at all can be seen
MOST_TICKS = 6
PAD = 0.02
LETTER, MARGIN = 1.25, 2.0  # percent of a chart of 520 pixels
MINUTE, HOUR, DAY = 60, 3600, 86_400
STEPS = (
    *(1, 2, 5, 10, 15, 30),
    *(MINUTE * n for n in (1, 2, 3, 5, 10, 15, 30)),
    *(HOUR * n for n in (1, 2, 3, 6, 12)),
    *(DAY * n for n in (1, 2, 7, 14, 30, 90, 365, 3650)),
)
ROOM = 9  # percent: how much the word "now" takes away from a tick beside it

# the states in which a task waits, with the class of their bars and the word in them
WAITS = {
    TaskState.QUEUED: ("g-wait", "queued"),
    TaskState.RETRY: ("g-back", "backoff"),
    TaskState.BLOCKED: ("g-wait", "blocked"),
    TaskState.ESCALATED: ("g-open", "waits for you"),
}
BLOCKED = {
    "dependency": "waits for a task",
    "dependency_skipped": "what it needs was skipped",
    "breaker_open": "breaker open",
    "reported": "reported blocked",
}
ENDS = {
    Outcome.SUCCESS: ("g-ok", "t-ok", "done"),
    Outcome.FAILURE: ("g-bad", "t-bad", "failed"),
    Outcome.RELEASED: ("g-back", "t-back", "put back"),
    Outcome.BLOCKED: ("g-back", "t-back", "blocked"),
    Outcome.ESCALATED: ("g-back", "t-back", "asked"),
    Outcome.ABORTED: ("g-wait", "", "aborted"),
    None: ("g-run", "t-run", ""),
}


@dataclass(frozen=True, slots=True)
class Bar:
    """From x on, so wide; the word in it is cut off where the bar ends."""

    x: float
    width: float
    css: str
    word: str
    word_css: str
    tip: str

    @property
    def has_room(self) -> bool:
        """Whether its word fits, on the narrowest chart there is."""
        return self.width >= LETTER * len(self.word) + MARGIN


@dataclass(frozen=True, slots=True)
class Tick:
    x: float
    word: str
    at: str = ""  # the instant, where the word is its time of day


@dataclass(frozen=True, slots=True)
class Beat:
    """From the beginning of an attempt to the last time it was heard of."""

    x: float
    last: float
    tip: str


@dataclass(frozen=True, slots=True)
class Timeline:
    ticks: list[Tick]
    waits: list[Bar]
    attempts: list[Bar]
    leases: list[tuple[float, float]]  # x and width of what a live one still has
    beats: list[Beat]
    now: float | None  # None once it is over
    working: timedelta
    waiting: timedelta
    whole: timedelta

    @property
    def finding(self) -> str:
        """The chart in a sentence, for readers of a screen."""
        worked, waited = duration(self.working), duration(self.waiting)
        return f"{len(self.attempts)} attempts in {duration(self.whole)}: {worked} at work, " + (
            f"{waited} waiting."
        )


@dataclass(frozen=True, slots=True)
class Scale:
    """Percent of the axis."""

    start: datetime
    length: float  # seconds

    def x(self, at: datetime) -> float:
        share = (at - self.start).total_seconds() / self.length
        return round(100 * min(max(share, 0.0), 1.0), 2)

    def span(self, start: datetime, end: datetime) -> tuple[float, float]:
        """x and width; at the far end it moves to the left to be seen."""
        x = self.x(start)
        width = max(self.x(end) - x, NARROWEST)
        return round(min(x, 100 - width), 2), round(width, 2)


def build_timeline(
    task: Task, events: Sequence[Event], attempts: Sequence[Attempt], *, now: datetime
) -> Timeline:
    """`events` are the journal of the task and `attempts` its attempts, both oldest first."""
    is_over = task.state in FINAL and task.completed_at is not None
    end = task.completed_at if is_over and task.completed_at else now
    live = [attempt for attempt in attempts if attempt.outcome is None]
    last = max([end, *(attempt.lease_expires_at for attempt in live)])
    length = max((last - task.created_at).total_seconds(), 1.0) * (1 + PAD)
    scale = Scale(task.created_at, length)
    working = sum(((a.ended_at or end) - a.started_at for a in attempts), timedelta())
    whole = max(end - task.created_at, timedelta())
    now_x = None if is_over else scale.x(now)
    return Timeline(
        ticks=ticks(scale, now_x),
        waits=waits(events, scale, end=end),
        attempts=[attempt_bar(attempt, scale, end=end) for attempt in attempts],
        leases=[scale.span(now, a.lease_expires_at) for a in live if a.lease_expires_at > now],
        beats=[beat(attempt, scale) for attempt in attempts if attempt.heartbeat_at],
        now=now_x,
        working=working,
        waiting=max(whole - working, timedelta()),
        whole=whole,
    )


def waits(events: Sequence[Event], scale: Scale, *, end: datetime) -> list[Bar]:
    """A bar for each stay in a state in which a task waits."""
    moves = [event for event in events if event.to_state]
    ends = [event.at for event in moves[1:]] + [max(end, moves[-1].at)] if moves else []
    return [
        wait_bar(event, until, scale)
        for event, until in zip(moves, ends, strict=True)
        if event.to_state in WAITS
    ]


def wait_bar(event: Event, until: datetime, scale: Scale) -> Bar:
    css, word = WAITS[TaskState(event.to_state or "")]
    reason = str(event.data.get("reason") or event.data.get("blocked_reason") or "")
    if event.to_state == TaskState.BLOCKED:
        reason = reason or ("dependency" if event.kind == Kind.TASK_CREATED else "")
        word = BLOCKED.get(reason, word)
        css = "g-open" if reason in ("breaker_open", "reported") else css
    text_css = {"g-open": "t-bad", "g-back": "t-back"}.get(css, "")
    x, width = scale.span(event.at, until)
    said = f"{word[:1].upper()}{word[1:]}|for {duration(until - event.at).replace(' ', NARROW)}"
    return Bar(x, width, css, word, text_css, said)


NARROW = "\u202f"  # the tip takes what comes after the last space for its number


def attempt_bar(attempt: Attempt, scale: Scale, *, end: datetime) -> Bar:
    css, text_css, word = ENDS[Outcome(attempt.outcome) if attempt.outcome else None]
    failure = getattr(attempt, "failure", None)
    if failure and failure.type == "timeout":
        word = "timed out"
    until = attempt.ended_at or end
    x, width = scale.span(attempt.started_at, until)
    took = duration(until - attempt.started_at)
    said = f"Attempt {attempt.number}: {word or 'running'}|for {took.replace(' ', NARROW)}"
    whole = Bar(x, width, css, f"{attempt.number}, {word} after {took}", text_css, said)
    return whole if word and whole.has_room else replace(whole, word=str(attempt.number))


def beat(attempt: Attempt, scale: Scale) -> Beat:
    at = attempt.heartbeat_at or attempt.started_at
    return Beat(
        scale.x(attempt.started_at),
        scale.x(at),
        f"Attempt {attempt.number}|heartbeats {attempt.heartbeats}",
    )


def ticks(scale: Scale, now: float | None) -> list[Tick]:
    """At round times: of the day, or since the beginning where the whole takes no minutes."""
    step = next((each for each in STEPS if scale.length / each <= MOST_TICKS), STEPS[-1])
    start = scale.start.astimezone(UTC)
    if step < MINUTE:
        count = int(scale.length // step) + 1
        made = [(start + timedelta(seconds=n * step), f"+{n * step} s", "") for n in range(count)]
        made[0] = (start, "0", "")
    else:
        first = -(-start.timestamp() // step) * step
        count = max(int((scale.length - (first - start.timestamp())) // step) + 1, 0)
        times = [datetime.fromtimestamp(first + n * step, UTC) for n in range(count)]
        made = [(at, *word_of(at, step)) for at in times]
    found = [Tick(scale.x(at), word, iso) for at, word, iso in made]
    return [tick for tick in found if now is None or abs(tick.x - now) > ROOM]


def word_of(at: datetime, step: int) -> tuple[str, str]:
    if step >= DAY:
        return f"{at.day} {at:%b}", ""
    return f"{at:%H:%M}", at.isoformat(timespec="seconds")


# ---- the history


@dataclass(frozen=True, slots=True)
class Move:
    """An event of the history and how long the task stayed where it led to."""

    event: Event
    stayed: timedelta | None  # None for what is no move, and once it is over


def list_moves(events: Sequence[Event], *, now: datetime) -> list[Move]:
    """The history, newest first."""
    led = [event for event in events if event.to_state]
    stays = {a.pk: b.at - a.at for a, b in pairwise(led)}
    if led and led[-1].to_state not in FINAL:
        stays[led[-1].pk] = max(now - led[-1].at, timedelta())
    return [Move(event, stays.get(event.pk)) for event in reversed(events)]
