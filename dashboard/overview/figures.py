"""Build the six tiles of Overview (pure): a number, its line, and its change."""

from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.charts.sparklines import Spark, spark
from dashboard.overview.trends import Slot, Trend, find_quantile
from dashboard.wording.formatting import duration, percent_text

# smaller changes are not shown: in percentage points for shares, relative for others
MIN_SHARE_CHANGE = 0.001
MIN_CHANGE = 0.02


@dataclass(frozen=True, slots=True)
class Change:
    """The difference from the range before; `tone` is good, bad or empty."""

    text: str
    up: bool
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Tile:
    label: str
    page: str  # the list that the tile links to, and its query
    query: str
    value: list[tuple[str, str]]  # numbers with their units
    note: str
    spark: Spark | None
    change: Change | None = None

    @property
    def tone(self) -> str:
        # A number that got worse is amber.
        return "amber" if self.change and self.change.tone == "bad" else ""


def build_tiles(trend: Trend, *, waiting: int) -> list[Tile]:
    # the current bar is incomplete and would bend every line down
    slots = trend.slots[:-1]
    return [
        done_tile(trend, slots),
        first_attempt_tile(trend, slots),
        attempts_tile(trend, slots),
        acknowledged_tile(trend, slots),
        ack_time_tile(trend, slots),
        answer_time_tile(trend, slots, waiting),
    ]


def done_tile(trend: Trend, slots: Sequence[Slot]) -> Tile:
    whole, before = trend.whole, trend.before
    change = None
    if before.finished and whole.tasks_done != before.tasks_done:
        more = whole.tasks_done - before.tasks_done
        change = Change(f"{abs(more):,}", more > 0, "good" if more > 0 else "")
    line = spark([slot.tasks_done for slot in slots], floor=0)
    note = f"of {whole.finished:,} finished"
    value = [(f"{whole.tasks_done:,}", "")]
    return Tile("Tasks done", "dashboard:tasks", "state:done", value, note, line, change)


def first_attempt_tile(trend: Trend, slots: Sequence[Slot]) -> Tile:
    whole, before = trend.whole, trend.before
    line = spark([ratio(slot.tasks_done_first, slot.finished) for slot in slots])
    note = f"{whole.tasks_done_first:,} of {whole.finished:,}"
    now = ratio(whole.tasks_done_first, whole.finished)
    change = compare_shares(now, ratio(before.tasks_done_first, before.finished))
    return Tile(
        "First-attempt success", "dashboard:tasks", "", percent_value(now), note, line, change
    )


def attempts_tile(trend: Trend, slots: Sequence[Slot]) -> Tile:
    whole, before = trend.whole, trend.before
    line = spark([ratio(slot.finished_attempts, slot.finished) for slot in slots], floor=0)
    now = ratio(whole.finished_attempts, whole.finished)
    change = compare_costs(now, ratio(before.finished_attempts, before.finished))
    value = NO_VALUE if now is None else [(f"{now:.2f}", "")]
    note = f"{whole.tasks_done_later:,} needed a retry"
    return Tile("Attempts per task", "dashboard:tasks", "", value, note, line, change)


def acknowledged_tile(trend: Trend, slots: Sequence[Slot]) -> Tile:
    whole, before = trend.whole, trend.before
    line = spark([ratio(slot.acknowledged, slot.settled) for slot in slots])
    now = ratio(whole.acknowledged, whole.settled)
    change = compare_shares(now, ratio(before.acknowledged, before.settled))
    note = f"of {whole.settled:,} settled"
    value = percent_value(now)
    return Tile(
        "Acknowledged", "dashboard:instructions", "state:acknowledged", value, note, line, change
    )


def ack_time_tile(trend: Trend, slots: Sequence[Slot]) -> Tile:
    line = spark([find_quantile(slot.ack, 0.95) for slot in slots], floor=0)
    p95, p50 = (find_quantile(trend.whole.ack, share) for share in (0.95, 0.5))
    change = compare_times(p95, find_quantile(trend.before.ack, 0.95))
    note = f"half within {duration(p50)}" if p50 is not None else "none acknowledged"
    query = f"ack:>{p95:.0f}s" if p95 and p95 >= 1 else "state:acknowledged"
    return Tile(
        "Time to ack, p95", "dashboard:instructions", query, time_value(p95), note, line, change
    )


def answer_time_tile(trend: Trend, slots: Sequence[Slot], waiting: int) -> Tile:
    line = spark([find_quantile(slot.answer, 0.5) for slot in slots], floor=0, steps=True)
    now = find_quantile(trend.whole.answer, 0.5)
    change = compare_times(now, find_quantile(trend.before.answer, 0.5))
    note = f"{waiting:,} open"
    return Tile("Time to answer", "dashboard:escalations", "", time_value(now), note, line, change)


NO_VALUE = [("–", "")]


def percent_value(share: float | None) -> list[tuple[str, str]]:
    return NO_VALUE if share is None else [(percent_text(share).removesuffix("%"), "%")]


def time_value(seconds: float | None) -> list[tuple[str, str]]:
    if seconds is None:
        return NO_VALUE
    parts = duration(seconds).split(" ")
    return list(zip(parts[::2], parts[1::2], strict=True))


def compare_shares(now: float | None, before: float | None) -> Change | None:
    if now is None or before is None or abs(now - before) < MIN_SHARE_CHANGE:
        return None
    better = now - before
    return Change(f"{100 * abs(better):.1f} pt", better > 0, tone_of(better))


def compare_costs(now: float | None, before: float | None) -> Change | None:
    if now is None or before is None or not has_changed(now, before):
        return None
    return Change(f"{abs(now - before):.2f}", now > before, tone_of(before - now))


def compare_times(now: float | None, before: float | None) -> Change | None:
    # times are accurate to five percent
    if now is None or before is None or abs(now - before) < 0.06 * before:
        return None
    return Change(duration(abs(now - before)), now > before, tone_of(before - now))


def tone_of(better: float) -> str:
    return "good" if better > 0 else "bad"


def has_changed(now: float, before: float) -> bool:
    return abs(now - before) > MIN_CHANGE * before


def ratio(part: int, whole: int) -> float | None:
    return part / whole if whole > 0 else None
