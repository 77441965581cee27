"""Read what agents did in a range of time: rates and sparklines.

They come from counts of half hours, or for the last hour from the journal itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from dashboard.charts.sparklines import Spark, spark
from dashboard.wording.formatting import few
from ledger.database import sql
from ledger.database.optional_cache import get_or_compute_slow
from ledger.models import Project
from ledger.values.ids import SLACK, first_id
from retries.journal_readers.counts import IS_COUNTED, SOURCE, SUMS
from retries.models.activity_count import HALF_HOUR

# A rate of fewer attempts says little.
LEAST_ATTEMPTS = 10
WORSE = 0.01  # smaller changes are not shown
SUMMED = ("attempts", "attempts_failed", "busy_s", "tasks_done", "tasks_done_first", "tasks_failed")


@dataclass(frozen=True, slots=True)
class Range:
    """A range that ends now, and the length of one point of its sparklines."""

    key: str
    label: str
    length: timedelta
    point: timedelta
    before: str  # what it is compared with

    @property
    def hours(self) -> float:
        return self.length.total_seconds() / 3600

    @property
    def points(self) -> int:
        return int(self.length / self.point)


RANGES = {
    each.key: each
    for each in (
        Range("1h", "1 h", timedelta(hours=1), timedelta(minutes=5), "the hour before"),
        Range("24h", "24 h", timedelta(hours=24), timedelta(hours=1), "the day before"),
        Range("7d", "7 d", timedelta(days=7), timedelta(hours=6), "the week before"),
    )
}
DAY = RANGES["24h"]
HOUR = RANGES["1h"]


@dataclass(slots=True)
class Sums:
    attempts: int = 0
    attempts_failed: int = 0
    busy_s: float = 0.0
    tasks_done: int = 0
    tasks_done_first: int = 0
    tasks_failed: int = 0

    def add(self, row: Mapping[str, Any]) -> None:
        for name in SUMMED:
            setattr(self, name, getattr(self, name) + row[name])

    @property
    def error_rate(self) -> float | None:
        return self.attempts_failed / self.attempts if self.attempts else None

    @property
    def finished(self) -> int:
        return self.tasks_done + self.tasks_failed

    @property
    def first_rate(self) -> float | None:
        """Return the share of finished tasks that were done by their first attempt."""
        return self.tasks_done_first / self.finished if self.finished else None

    @property
    def seconds_per_attempt(self) -> float | None:
        return self.busy_s / self.attempts if self.attempts else None


@dataclass(slots=True)
class Rates:
    """An agent's figures in a range: in all, in the range before, and point by point."""

    range: Range
    now: Sums = field(default_factory=Sums)
    before: Sums = field(default_factory=Sums)
    points: dict[int, Sums] = field(default_factory=dict)

    @property
    def per_hour(self) -> float:
        return self.now.tasks_done / self.range.hours

    @property
    def per_hour_text(self) -> str:
        """Return how many tasks were done in an hour, with a tenth if there were few."""
        return few(self.per_hour)

    @property
    def is_worse(self) -> bool:
        """Return whether there were more errors than before, among enough attempts."""
        return is_worse(self.now.error_rate, self.before.error_rate, self.now.attempts)

    @property
    def is_first_worse(self) -> bool:
        """Return whether fewer tasks were done by their first attempt than before."""
        now, before = self.now.first_rate, self.before.first_rate
        if now is None or before is None:
            return False
        return is_worse(1 - now, 1 - before, self.now.finished)

    @property
    def done_line(self) -> Spark | None:
        return spark([each.tasks_done for each in self.series()], floor=0)

    @property
    def error_line(self) -> Spark | None:
        rates = [each.error_rate for each in self.series()]
        if all(rate is None for rate in rates):
            return None
        return spark([rate or 0.0 for rate in rates], floor=0)

    def series(self) -> list[Sums]:
        return [self.points.get(n) or Sums() for n in range(self.range.points)]


def is_worse(now: float | None, before: float | None, attempts: int) -> bool:
    if before is None or now is None:
        return False
    return attempts >= LEAST_ATTEMPTS and now >= before + WORSE


# `n` counts the points from the start of the range; -1 is the range before.
RATES = f"""select c.agent_id,
    greatest(-1, floor(extract(epoch from c.at - %(since)s) / %(point)s))::int as n,
    {", ".join(f"sum(c.{name}) as {name}" for name in SUMMED)}
from retries_activitycount c
where c.minutes = {HALF_HOUR} and c.at >= %(from)s and c.at < %(until)s
    and (%(project)s::uuid is null or c.project_id = %(project)s)
    and (%(agent)s::uuid is null or c.agent_id = %(agent)s)
group by 1, 2"""


KINDS = {"busy_s": "float8"}
RECENT = f"""select e.agent_id,
    greatest(-1, floor(extract(epoch from e.at - %(since)s) / %(point)s))::int as n,
    {", ".join(f"({SUMS[name]})::{KINDS.get(name, 'int')} as {name}" for name in SUMMED)}
from {SOURCE}
where e.id >= %(floor)s::uuid and e.at >= %(from)s and e.at < %(until)s and {IS_COUNTED}
    and (%(project)s::uuid is null or e.project_id = %(project)s)
    and (%(agent)s::uuid is null or e.agent_id = %(agent)s)
group by 1, 2"""


def read_rates(
    project: Project | None, range: Range, *, now: datetime, agent_id: UUID | None = None
) -> dict[UUID, Rates]:
    until = find_end(now, timedelta(minutes=HALF_HOUR) if range is not HOUR else range.point)
    since = until - range.length
    place = agent_id or (project.id if project else "all")
    given: dict[str, Any] = {"from": since - range.length, "since": since, "until": until}
    given |= {"point": range.point.total_seconds(), "agent": agent_id}
    given |= {"project": project.id if project else None}
    if range is HOUR:
        given["floor"] = first_id(given["from"] - SLACK)
    rows = get_or_compute_slow(
        f"rates:{range.key}:{place}:{until:%d%H%M}",
        lambda: sql.run_custom_plan(RECENT if range is HOUR else RATES, **given),
    )
    return combine_rows(rows, range)


def combine_rows(rows: Sequence[Mapping[str, Any]], range: Range) -> dict[UUID, Rates]:
    found: dict[UUID, Rates] = {}
    for row in rows:
        rates = found.setdefault(row["agent_id"], Rates(range))
        if row["n"] < 0:
            rates.before.add(row)
        else:
            rates.now.add(row)
            rates.points.setdefault(row["n"], Sums()).add(row)
    return found


def find_end(now: datetime, slot: timedelta) -> datetime:
    """Return the end of the slot of time that `now` is in.

    >>> find_end(datetime(2026, 11, 21, 14, 40, tzinfo=UTC), timedelta(minutes=30)).hour
    15
    """
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return epoch + (now - epoch) // slot * slot + slot
