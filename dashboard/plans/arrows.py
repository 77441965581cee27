"""Draw what needs what beside a plan's rows: a lane and arrows for each needed task (pure)."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ledger.planfile.preview import PreviewRow

MOST_LANES = 6  # needs without a lane are shown only as text
STEP = 10  # the distance between two lanes
MARGIN = 9  # room for the arrowheads


@dataclass(slots=True)
class RowArrows:
    """The lines beside one row; each number is the x of a lane.

    Lines run `through` the row, from its top to its middle (`above`), or from there to its end
    (`below`). A lane `starts` at the task that is needed, and has an arrow (`ends`) to each task
    that needs it.
    """

    through: list[int] = field(default_factory=list)
    above: list[int] = field(default_factory=list)
    below: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Lane:
    """A needed task's row, the rows that need it, and where its line is."""

    source: int
    targets: list[int]
    x: int

    @property
    def first(self) -> int:
        return min(self.source, *self.targets)

    @property
    def last(self) -> int:
        return max(self.source, *self.targets)


def draw_arrows(rows: Sequence[PreviewRow]) -> tuple[list[RowArrows], int]:
    lanes = place_lanes(rows)
    arrows = [RowArrows() for _ in rows]
    for lane in lanes:
        x = lane.x
        for n in range(lane.first, lane.last + 1):
            if lane.first < n < lane.last:
                arrows[n].through.append(x)
            elif n == lane.first:
                arrows[n].below.append(x)
            else:
                arrows[n].above.append(x)
        arrows[lane.source].starts.append(x)
        for n in lane.targets:
            arrows[n].ends.append(x)
    return arrows, len({lane.x for lane in lanes})


def place_lanes(rows: Sequence[PreviewRow]) -> list[Lane]:
    """Give each needed task the leftmost lane that is free over all its rows, if there is one."""
    places = {row.ref: n for n, row in enumerate(rows) if row.ref}
    targets: dict[int, list[int]] = {}
    for n, row in enumerate(rows):
        for need in row.needs:
            if need in places:
                targets.setdefault(places[need], []).append(n)
    spans = sorted((min(n, *to), max(n, *to), n) for n, to in targets.items())
    lanes: list[Lane] = []
    ends: list[int] = []  # the last row of each lane so far
    for first, last, source in spans:
        free = next((k for k, end in enumerate(ends) if end <= first), len(ends))
        if free == MOST_LANES:
            continue
        ends[free : free + 1] = [last]
        lanes.append(Lane(source, targets[source], STEP // 2 + STEP * (MOST_LANES - 1 - free)))
    offset = min((lane.x for lane in lanes), default=0) - STEP // 2
    return [Lane(lane.source, lane.targets, lane.x - offset) for lane in lanes]
