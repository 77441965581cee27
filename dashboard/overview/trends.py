"""Read the results of a range of time and of the one before from the counts of the journal."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from ledger.database import sql
from ledger.database.optional_cache import get_or_compute_slow
from ledger.models import Project
from retries.journal_readers.counts import STEP
from retries.models.activity_count import DAY, HALF_HOUR

SUMMED = (
    "attempts",
    "tasks_done",
    "tasks_done_first",
    "tasks_failed",
    "finished_attempts",
    "sent",
    "acknowledged_first",
    "acknowledged_later",
    "given_up",
)


@dataclass(frozen=True, slots=True)
class TrendRange:
    """A range that ends now, in bars of one length; `minutes` are those of the counts to read."""

    key: str
    label: str
    name: str
    before: str
    bar: timedelta
    bars: int
    minutes: int

    @property
    def length(self) -> timedelta:
        return self.bar * self.bars

    def find_start(self, now: datetime) -> datetime:
        """Return where the first bar begins; the last one is not over yet."""
        now, unit = now.astimezone(UTC), timedelta(minutes=self.minutes)
        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        return epoch + (now - epoch) // unit * unit + unit - self.length


RANGES = {
    each.key: each
    for each in (
        TrendRange(
            "24h", "24 h", "24 hours", "the 24 hours before", timedelta(minutes=30), 48, HALF_HOUR
        ),
        TrendRange("7d", "7 d", "7 days", "the 7 days before", timedelta(hours=6), 28, HALF_HOUR),
        TrendRange("30d", "30 d", "30 days", "the 30 days before", timedelta(days=1), 30, DAY),
    )
}
LAST_DAY = RANGES["24h"]


@dataclass(slots=True)
class Slot:
    """The figures of one bar's time, or of a whole range."""

    attempts: int = 0
    tasks_done: int = 0
    tasks_done_first: int = 0
    tasks_failed: int = 0
    finished_attempts: int = 0
    sent: int = 0
    acknowledged_first: int = 0
    acknowledged_later: int = 0
    given_up: int = 0
    ack: Counter[int] = field(default_factory=Counter)  # counts by step of time
    answer: Counter[int] = field(default_factory=Counter)

    @property
    def finished(self) -> int:
        return self.tasks_done + self.tasks_failed

    @property
    def tasks_done_later(self) -> int:
        return self.tasks_done - self.tasks_done_first

    @property
    def acknowledged(self) -> int:
        return self.acknowledged_first + self.acknowledged_later

    @property
    def settled(self) -> int:
        return self.acknowledged + self.given_up


@dataclass(frozen=True, slots=True)
class Trend:
    """The bars of a range, oldest first, with the sums of the range and of the one before."""

    range: TrendRange
    start: datetime
    slots: list[Slot]
    whole: Slot
    before: Slot


# `n` counts the bars from the start; -1 is the previous range.
BAR = "greatest(-1, floor(extract(epoch from c.at - %(since)s) / %(bar)s))::int"
WITHIN = """c.minutes = %(minutes)s and c.at >= %(from)s and c.at < %(until)s
    and (%(project)s::uuid is null or c.project_id = %(project)s)"""
# each bar's sums, then its durations; only durations have a `measure`
FIGURES = f"""select {BAR} as n, null as measure, null::int as step, null::bigint as count,
    {", ".join(f"sum(c.{name})::bigint as {name}" for name in SUMMED)}
from retries_activitycount c where {WITHIN} group by 1
union all
select {BAR}, c.measure, c.step, sum(c.count)::bigint, {", ".join("null" for _ in SUMMED)}
from retries_durationcount c where {WITHIN} group by 1, 2, 3"""


def read_trend(project: Project | None, range: TrendRange, *, now: datetime) -> Trend:
    start = range.find_start(now)
    place = project.id if project else "all"
    rows = get_or_compute_slow(
        f"trend-figures:{range.key}:{place}:{start:%m%d%H%M}",
        lambda: read_rows(project, range, start),
    )
    slots = [Slot() for _ in [None] * range.bars]
    whole, before = Slot(), Slot()
    for row in rows:
        for slot in slots_of(row["n"], slots, whole, before):
            if row["measure"]:
                getattr(slot, row["measure"])[row["step"]] += row["count"]
                continue
            for name in SUMMED:
                setattr(slot, name, getattr(slot, name) + row[name])
    return Trend(range, start, slots, whole, before)


def read_rows(project: Project | None, range: TrendRange, start: datetime) -> list[sql.Row]:
    params: Mapping[str, Any] = {
        "from": start - range.length,
        "since": start,
        "until": start + range.length,
        "bar": range.bar.total_seconds(),
        "minutes": range.minutes,
        "project": project.id if project else None,
    }
    return sql.run_custom_plan(FIGURES, **params)


def slots_of(n: int, slots: list[Slot], whole: Slot, before: Slot) -> Iterable[Slot]:
    return [before] if n < 0 else [slots[n], whole]


def find_quantile(steps: Counter[int], share: float) -> float | None:
    """Return the seconds that a share of the durations does not exceed, to five percent.

    >>> round(find_quantile(Counter({0: 3, 10: 1}), 0.5))
    1
    """
    left = share * steps.total()
    for step in sorted(steps):
        left -= steps[step]
        if left <= 0:
            return float(STEP**step)
    return None
