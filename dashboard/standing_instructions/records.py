"""Count how often a rule was sent, followed and ignored (pure)."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dashboard.wording.badges import urgency_badge
from ledger.states import LEVELS

# below this share of followed instructions a figure turns amber
LOW = 0.7
HEIGHT, BASE = 110, 130
GAP = 0.2  # the share of a day's width
LABELS = 5
STEPS = ("First sending", "Again", "IMPORTANT", "URGENT", "Gave up")
SHORT = {"First sending": "First", "IMPORTANT": "Import.", "URGENT": "Urgent"}
ICONS = (*(urgency_badge(level).icon for level in range(len(LEVELS))), "s-failed")


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the small ladder: how many instructions got that far and no further."""

    name: str
    icon: str
    count: int

    @property
    def short(self) -> str:
        return SHORT.get(self.name, self.name)


@dataclass(frozen=True, slots=True)
class Record:
    """The instructions that a rule, an agent or all rules sent in a window of time."""

    fired: int = 0
    followed: tuple[int, ...] = (0, 0, 0, 0)  # by the number of reminders
    ignored: int = 0
    held: int = 0
    let_go: int = 0

    @property
    def settled(self) -> int:
        return sum(self.followed) + self.ignored

    @property
    def share(self) -> float | None:
        """The share of settled instructions that were followed, or None without any."""
        return sum(self.followed) / self.settled if self.settled else None

    @property
    def percent(self) -> int | None:
        return None if self.share is None else round(self.share * 100)

    @property
    def is_low(self) -> bool:
        return self.share is not None and self.share < LOW

    @property
    def bar(self) -> float:
        # The bar is 48 pixels wide.
        return round((self.share or 0) * 48, 1)

    @property
    def at_once_percent(self) -> int | None:
        return round(self.followed[0] / self.settled * 100) if self.settled else None

    @property
    def reminded(self) -> int:
        return sum(self.followed[1:])

    @property
    def steps(self) -> list[Step]:
        counts = (*self.followed, self.ignored)
        return [Step(*each) for each in zip(STEPS, ICONS, counts, strict=True)]

    def __add__(self, other: "Record") -> "Record":
        return Record(
            self.fired + other.fired,
            tuple(a + b for a, b in zip(self.followed, other.followed, strict=True)),
            self.ignored + other.ignored,
            self.held + other.held,
            self.let_go + other.let_go,
        )


@dataclass(frozen=True, slots=True)
class DayBar:
    """One day of the chart, stacked from the bottom; positions in percent, heights in pixels."""

    x: float
    width: float
    at_once: float
    reminded: float
    ignored: float
    summary: str
    tip: str

    @property
    def inner_x(self) -> float:
        return round(self.x + self.width * GAP / 2, 2)

    @property
    def inner_width(self) -> float:
        return round(self.width * (1 - GAP), 2)

    @property
    def at_once_y(self) -> float:
        return round(BASE - self.at_once, 1)

    @property
    def reminded_y(self) -> float:
        return round(self.at_once_y - self.reminded, 1)

    @property
    def ignored_y(self) -> float:
        return round(self.reminded_y - self.ignored, 1)


@dataclass(frozen=True, slots=True)
class ChangeMark:
    """A change of the rule, at its place in the chart in percent."""

    x: float
    text: str


@dataclass(frozen=True, slots=True)
class DayChart:
    bars: list[DayBar] = field(default_factory=list)
    labels: list[tuple[float, str]] = field(default_factory=list)
    marks: list[ChangeMark] = field(default_factory=list)
    summary: str = ""


def draw_days(
    days: list[tuple[str, Record]], changes: Sequence[tuple[float, str]] = ()
) -> DayChart:
    """Return the bars of consecutive days, oldest first, and a mark at each change of the rule."""
    # A change is given by the days from the beginning of the first day, and a sentence.
    top = max((record.settled for _, record in days), default=0)
    if not top:
        return DayChart()
    step = 100 / len(days)
    bars, labels = [], []
    for at, (label, record) in enumerate(days):
        counts = (record.followed[0], record.reminded, record.ignored)
        at_once, reminded, ignored = (round(count / top * HEIGHT, 1) for count in counts)
        said = f"{counts[0]} at once, {counts[1]} after a reminder, {counts[2]} ignored"
        tip = f"{label}|At once {counts[0]}|After a reminder {counts[1]}|Ignored {counts[2]}"
        x, width, said = round(at * step, 2), round(step, 2), f"{label}: {said}"
        bars.append(DayBar(x, width, at_once, reminded, ignored, said, tip))
        if at % max(1, len(days) // LABELS) == 0:
            labels.append((round((at + 0.5) * step, 2), label))
    whole = sum((record for _, record in days), Record())
    return DayChart(
        bars,
        labels,
        [ChangeMark(round(at * step, 2), text) for at, text in changes if 0 <= at <= len(days)],
        f"{sum(whole.followed)} followed, {whole.reminded} of them after a reminder, "
        f"and {whole.ignored} ignored in {len(days)} days",
    )
