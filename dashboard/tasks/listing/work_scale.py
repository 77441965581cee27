"""A time axis on which long waits are cut, so that attempts can be seen (pure)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

Interval = tuple[datetime, datetime]

# A wait longer than the first share of all work is cut to the second.
LONGEST, SHOWN = 0.25, 0.16


@dataclass(frozen=True, slots=True)
class Cut:
    """The place where a wait is cut, in percent of the axis."""

    x: float


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of time and its place, in percent of the axis."""

    start: datetime
    end: datetime
    x: float
    width: float
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class WorkScale:
    """Convert times to percent of an axis that gives attempts one scale."""

    pieces: list[Piece]
    narrowest: float

    def x(self, at: datetime) -> float:
        for piece in self.pieces:
            if at <= piece.end:
                length = (piece.end - piece.start).total_seconds()
                share = (at - piece.start).total_seconds() / length if length else 0.0
                return round(piece.x + piece.width * min(max(share, 0.0), 1.0), 2)
        return 100.0

    def span(self, start: datetime, end: datetime) -> tuple[float, float]:
        # A bar at the far end moves left to stay visible.
        x = self.x(start)
        width = max(self.x(end) - x, self.narrowest)
        return round(min(x, 100 - width), 2), round(width, 2)

    @property
    def cuts(self) -> list[Cut]:
        return [Cut(round(piece.x + piece.width / 2, 2)) for piece in self.pieces if piece.is_cut]


def build_work_scale(
    start: datetime, end: datetime, attempts: Sequence[Interval], *, narrowest: float
) -> WorkScale | None:
    """Return the scale of a task's whole time, or None if no attempt took any time."""
    work = sum((until - since).total_seconds() for since, until in attempts)
    if work <= 0:
        return None
    stretches: list[tuple[datetime, datetime, float, bool]] = []
    at = start
    for since, until in attempts:
        if since > at:
            stretches.append((at, since, *shorten((since - at).total_seconds(), work)))
        if until > max(since, at):
            begin = max(since, at)
            stretches.append((begin, until, (until - begin).total_seconds(), False))
        at = max(at, until)
    if end > at:
        stretches.append((at, end, *shorten((end - at).total_seconds(), work)))
    total = sum(length for _, _, length, _ in stretches)
    pieces, x = [], 0.0
    for since, until, length, is_cut in stretches:
        width = 100 * length / total
        pieces.append(Piece(since, until, x, width, is_cut))
        x += width
    return WorkScale(pieces, narrowest)


def shorten(wait: float, work: float) -> tuple[float, bool]:
    return (SHOWN * work, True) if wait > LONGEST * work else (wait, False)
