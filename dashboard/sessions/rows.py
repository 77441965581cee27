"""Describe a session for lists and its page: its state, buffer and to-dos."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings

from ledger.models import Session
from ledger.states import BatchOutcome

BAR = 40  # width of the bar of to-dos
BARS = 16  # the bars of a buffer


@dataclass(frozen=True, slots=True)
class Bar:
    """One message in the drawing of a buffer."""

    css: str
    x: int


@dataclass(frozen=True, slots=True)
class Buffer:
    """The messages of a session that are not processed yet."""

    count: int
    threshold: int
    has_failed: bool = False

    @property
    def bars(self) -> list[Bar]:
        full = "buf__v buf__v--bad" if self.has_failed else "buf__v"
        filled = min(self.count, self.threshold)
        # a buffer of another size is drawn with as many bars
        bars = min(self.threshold, BARS)
        filled = -(-filled * bars // self.threshold)
        return [Bar(full if n < filled else "buf__t", x=3 * n) for n in range(bars)]

    @property
    def ttl(self) -> int:
        """The seconds after which a buffer that is not full is processed."""
        seconds: int = settings.TENFOUR["SESSION_MESSAGE_BUFFER_TTL_SECONDS"]
        return seconds

    @property
    def missing(self) -> int:
        """The number of messages that would start a batch at once."""
        return max(0, self.threshold - self.count)


@dataclass(frozen=True, slots=True)
class TodoCounts:
    """The to-dos of a session by state, with the widths of their bar."""

    total: int
    done: int
    failed: int

    @property
    def done_width(self) -> int:
        return BAR * self.done // self.total if self.total else 0

    @property
    def failed_width(self) -> int:
        return max(3, BAR * self.failed // self.total) if self.total else 0


@dataclass(frozen=True, slots=True)
class LinkedAttempt:
    """The attempt that a session's last messages belong to."""

    id: UUID
    task_id: UUID
    label: str


@dataclass(frozen=True, slots=True)
class SessionEntry:
    """A row of the list."""

    row: Any
    state: str
    buffer: Buffer
    todos: TodoCounts
    attempt: LinkedAttempt | None


def derive_state(row: Session, now: datetime) -> str:
    # The most urgent state that applies is shown.
    if row.last_outcome in (BatchOutcome.FAILED, BatchOutcome.LOST):
        return "failed"
    if row.running_count or row.is_locked(now):
        return "processing"
    if row.pending_count:
        return "buffering"
    return "up-to-date" if row.is_tracked else "stored"


def describe_buffer(row: Session, state: str) -> Buffer:
    # Messages that are being processed count until they are done.
    count = row.pending_count + row.running_count
    return Buffer(count, read_threshold(), has_failed=state == "failed")


def read_threshold() -> int:
    threshold: int = settings.TENFOUR["SESSION_MESSAGE_BUFFER_MAX_TURNS"]
    return threshold


def describe_todos(row: Session) -> TodoCounts:
    # To-dos that the agent dropped are not left to do.
    wanted = row.task_count - row.task_dropped_count
    return TodoCounts(wanted, row.task_success_count, row.task_failed_count)


def describe_row(row: Any, *, now: datetime) -> SessionEntry:
    # `SessionList` has read the row with its `linked` attempt.
    state = derive_state(row, now)
    linked = row.linked
    return SessionEntry(
        row,
        state,
        describe_buffer(row, state),
        describe_todos(row),
        LinkedAttempt(**linked) if linked else None,
    )


def join_numbers(numbers: list[int], *, most: int = 4) -> list[tuple[int, str]]:
    """Return ranges of message numbers with their labels; the last one says how many more.

    >>> join_numbers([12, 20, 22, 23, 24])
    [(12, '#12'), (20, '#20'), (22, '#22–24')]
    """
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    labels = [(a, f"#{a}" if a == b else f"#{a}–{b}") for a, b in ranges]
    return labels[:most]
