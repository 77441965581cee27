"""Build the five tiles of Overview (pure): a number, its last day as a line, and its change."""

from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.formatting import duration
from dashboard.overview.queries import Day, HalfHour
from dashboard.sparklines import Spark, spark
from ledger.instruction_stats import Statistics

# smaller changes are not shown: of a share in percentage points, of all others relative
MIN_SHARE_CHANGE = 0.001
MIN_CHANGE = 0.02


@dataclass(frozen=True, slots=True)
class Change:
    """The difference from the day before; `tone` is good, bad or empty."""

    text: str
    up: bool
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Tile:
    label: str
    query: str  # of the list that the tile links to
    value: list[tuple[str, str]]  # numbers with their units
    note: str
    spark: Spark | None
    change: Change | None = None

    @property
    def tone(self) -> str:
        """Return the color of the line: amber if the number got worse, else none."""
        return "amber" if self.change and self.change.tone == "bad" else ""


def build_tiles(whole: Statistics, before: Day, half_hours: Sequence[HalfHour]) -> list[Tile]:
    """Return the tiles for the last 24 hours, compared with the 24 hours before."""
    # the current half hour would bend every line down
    hours = merge_to_hours(half_hours[:-1])
    compared = before if before.sent else None
    return [
        sent_tile(whole, compared, hours),
        acknowledged_tile(whole, compared, hours),
        ack_time_tile(whole, compared, hours),
        retries_tile(whole, compared, hours),
        given_up_tile(whole, compared, hours),
    ]


def merge_to_hours(half_hours: Sequence[HalfHour]) -> list[HalfHour]:
    """Return the half hours in pairs, aligned to the newest."""
    start = len(half_hours) % 2
    pairs = zip(half_hours[start::2], half_hours[start + 1 :: 2], strict=True)
    return [merge(*pair) for pair in pairs]


def merge(one: HalfHour, other: HalfHour) -> HalfHour:
    times = [each.ack_p95_s for each in (one, other) if each.ack_p95_s is not None]
    return HalfHour(
        at=one.at,
        sent=one.sent + other.sent,
        first=one.first + other.first,
        reminded=one.reminded + other.reminded,
        failed=one.failed + other.failed,
        waiting=one.waiting + other.waiting,
        retries=one.retries + other.retries,
        ack_p95_s=max(times, default=None),
    )


def sent_tile(whole: Statistics, before: Day | None, hours: Sequence[HalfHour]) -> Tile:
    line = spark([hour.sent for hour in hours], floor=0)
    note = f"{whole.waiting:,} still waiting" if whole.waiting else "none waiting"
    change = None
    if before and whole.sent != before.sent:
        change = Change(f"{abs(whole.sent - before.sent):,}", whole.sent > before.sent)
    return Tile("Instructions sent", "", count_value(whole.sent), note, line, change)


def acknowledged_tile(whole: Statistics, before: Day | None, hours: Sequence[HalfHour]) -> Tile:
    line = spark([ratio(hour.first + hour.reminded, hour.sent - hour.waiting) for hour in hours])
    note = f"of {whole.sent:,} sent"
    share = ratio(whole.acknowledged, whole.sent)
    if share is None:
        return Tile("Acknowledged", "state:acknowledged", NO_VALUE, note, line)
    change = None
    better = share - before.acknowledged_share if before else 0.0
    if abs(better) >= MIN_SHARE_CHANGE:
        change = Change(f"{100 * abs(better):.1f} pt", better > 0, tone_of(better))
    value = [(f"{100 * share:.1f}", "%")]
    return Tile("Acknowledged", "state:acknowledged", value, note, line, change)


def ack_time_tile(whole: Statistics, before: Day | None, hours: Sequence[HalfHour]) -> Tile:
    label, line = "Time to acknowledge, p95", spark([hour.ack_p95_s for hour in hours], floor=0)
    p95, p50 = whole.ack_p95_s, whole.ack_p50_s
    if p95 is None or p50 is None:
        return Tile(label, "state:acknowledged", NO_VALUE, "none acknowledged", line)
    change = None
    if before and before.ack_p95_s is not None and has_changed(p95, before.ack_p95_s):
        better = before.ack_p95_s - p95
        change = Change(duration(abs(better)), better < 0, tone_of(better))
    parts = duration(p95).split(" ")
    value = list(zip(parts[::2], parts[1::2], strict=True))
    return Tile(label, f"ack:>{p95:.0f}s", value, f"median {duration(p50)}", line, change)


def retries_tile(whole: Statistics, before: Day | None, hours: Sequence[HalfHour]) -> Tile:
    label, query = "Retries per instruction", "urgency:again,important,urgent"
    line = spark([ratio(hour.retries, hour.sent) for hour in hours], floor=0)
    if not whole.sent:
        return Tile(label, query, NO_VALUE, "none sent", line)
    change = None
    if before and has_changed(whole.retry_rate, before.retry_rate):
        better = before.retry_rate - whole.retry_rate
        change = Change(f"{abs(better):.2f}", better < 0, tone_of(better))
    note = f"{100 * whole.retried_share:.1f}% needed a retry"
    return Tile(label, query, [(f"{whole.retry_rate:.2f}", "")], note, line, change)


def given_up_tile(whole: Statistics, before: Day | None, hours: Sequence[HalfHour]) -> Tile:
    line = spark([hour.failed for hour in hours], floor=0, steps=True)
    change = None
    if before and has_changed(whole.failed, before.failed):
        better = before.failed - whole.failed
        change = Change(f"{abs(better):,}", better < 0, tone_of(better))
    note = f"{100 * whole.failed_share:.1f}% of all" if whole.failed else "none ignored"
    return Tile("Given up", "state:failed", count_value(whole.failed), note, line, change)


NO_VALUE = [("–", "")]


def count_value(count: int) -> list[tuple[str, str]]:
    return [(f"{count:,}", "")]


def tone_of(better: float) -> str:
    return "good" if better > 0 else "bad"


def has_changed(now: float, before: float) -> bool:
    """Return whether the change is large enough to show."""
    return abs(now - before) > MIN_CHANGE * before


def ratio(part: int, whole: int) -> float | None:
    return part / whole if whole > 0 else None
