"""The five figures of Overview (pure): a number, its day in a line, and how yesterday was."""

from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.formatting import duration
from dashboard.overview.queries import Bin, Day
from dashboard.sparklines import Spark, spark
from ledger.instruction_stats import Statistics

# changes that are smaller are none: a share's in points, all others' against the day before
SAME_SHARE = 0.001
SAME = 0.02


@dataclass(frozen=True, slots=True)
class Change:
    """Against the day before; `tone` is good, bad or nothing."""

    text: str
    up: bool
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Tile:
    label: str
    query: str  # of the list behind it
    value: list[tuple[str, str]]  # numbers with their units
    note: str
    spark: Spark | None
    change: Change | None = None

    @property
    def tone(self) -> str:
        """A line has a colour only where its number is worse than yesterday's."""
        return "amber" if self.change and self.change.tone == "bad" else ""


def tiles(whole: Statistics, before: Day, bins: Sequence[Bin]) -> list[Tile]:
    """Of the last 24 hours; the half hour that is not over is in no line."""
    past = hours(bins[:-1])
    known = before if before.sent else None
    return [
        sent(whole, known, past),
        acknowledged(whole, known, past),
        ack_time(whole, known, past),
        retries(whole, known, past),
        given_up(whole, known, past),
    ]


def hours(bins: Sequence[Bin]) -> list[Bin]:
    """Two half hours make a point of a line, the newest two the last one."""
    start = len(bins) % 2
    return [both(*pair) for pair in zip(bins[start::2], bins[start + 1 :: 2], strict=True)]


def both(one: Bin, other: Bin) -> Bin:
    times = [each.ack_p95_s for each in (one, other) if each.ack_p95_s is not None]
    return Bin(
        at=one.at,
        sent=one.sent + other.sent,
        first=one.first + other.first,
        reminded=one.reminded + other.reminded,
        failed=one.failed + other.failed,
        waiting=one.waiting + other.waiting,
        retries=one.retries + other.retries,
        ack_p95_s=max(times, default=None),
    )


def sent(whole: Statistics, before: Day | None, past: Sequence[Bin]) -> Tile:
    line = spark([bin.sent for bin in past], floor=0)
    note = f"{whole.waiting:,} still waiting" if whole.waiting else "none waiting"
    change = None
    if before and whole.sent != before.sent:
        change = Change(f"{abs(whole.sent - before.sent):,}", whole.sent > before.sent)
    return Tile("Instructions sent", "", number(whole.sent), note, line, change)


def acknowledged(whole: Statistics, before: Day | None, past: Sequence[Bin]) -> Tile:
    line = spark([ratio(bin.first + bin.reminded, bin.sent - bin.waiting) for bin in past])
    note = f"of {whole.sent:,} sent"
    share = ratio(whole.acknowledged, whole.sent)
    if share is None:
        return Tile("Acknowledged", "state:acknowledged", NOTHING, note, line)
    change = None
    better = share - before.acknowledged_share if before else 0.0
    if abs(better) >= SAME_SHARE:
        change = Change(f"{100 * abs(better):.1f} pt", better > 0, tone(better))
    value = [(f"{100 * share:.1f}", "%")]
    return Tile("Acknowledged", "state:acknowledged", value, note, line, change)


def ack_time(whole: Statistics, before: Day | None, past: Sequence[Bin]) -> Tile:
    label, line = "Time to acknowledge, p95", spark([bin.ack_p95_s for bin in past], floor=0)
    p95, p50 = whole.ack_p95_s, whole.ack_p50_s
    if p95 is None or p50 is None:
        return Tile(label, "state:acknowledged", NOTHING, "none acknowledged", line)
    change = None
    if before and before.ack_p95_s is not None and differs(p95, before.ack_p95_s):
        better = before.ack_p95_s - p95
        change = Change(duration(abs(better)), better < 0, tone(better))
    words = duration(p95).split(" ")
    value = list(zip(words[::2], words[1::2], strict=True))
    return Tile(label, f"ack:>{p95:.0f}s", value, f"median {duration(p50)}", line, change)


def retries(whole: Statistics, before: Day | None, past: Sequence[Bin]) -> Tile:
    label, query = "Retries per instruction", "urgency:again,important,urgent"
    line = spark([ratio(bin.retries, bin.sent) for bin in past], floor=0)
    if not whole.sent:
        return Tile(label, query, NOTHING, "none sent", line)
    change = None
    if before and differs(whole.retry_rate, before.retry_rate):
        better = before.retry_rate - whole.retry_rate
        change = Change(f"{abs(better):.2f}", better < 0, tone(better))
    note = f"{100 * whole.retried_share:.1f}% needed a retry"
    return Tile(label, query, [(f"{whole.retry_rate:.2f}", "")], note, line, change)


def given_up(whole: Statistics, before: Day | None, past: Sequence[Bin]) -> Tile:
    line = spark([bin.failed for bin in past], floor=0, steps=True)
    change = None
    if before and differs(whole.failed, before.failed):
        better = before.failed - whole.failed
        change = Change(f"{abs(better):,}", better < 0, tone(better))
    note = f"{100 * whole.failed_share:.1f}% of all" if whole.failed else "none ignored"
    return Tile("Given up", "state:failed", number(whole.failed), note, line, change)


NOTHING = [("–", "")]


def number(count: int) -> list[tuple[str, str]]:
    return [(f"{count:,}", "")]


def tone(better: float) -> str:
    return "good" if better > 0 else "bad"


def differs(now: float, before: float) -> bool:
    """Whether it is worth a word."""
    return abs(now - before) > SAME * before


def ratio(part: int, whole: int) -> float | None:
    return part / whole if whole > 0 else None
