"""Add up the figures of days to calendar weeks and months (pure)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from dashboard.wording.formatting import counted, dollars

SHOWN = 7  # the last one is not over
COUNTS = ("done", "first", "proven", "attempts", "tokens")
NOTHING = dict.fromkeys(COUNTS, 0) | {"cost": None}


@dataclass(frozen=True, slots=True)
class Period:
    """The work that finished in a calendar week or month, in UTC."""

    name: str
    dates: str
    is_over: bool
    data: Mapping[str, Any]

    @property
    def first_percent(self) -> int | None:
        return self.share("first")

    @property
    def proven_percent(self) -> int | None:
        return self.share("proven")

    @property
    def attempts(self) -> str:
        done = self.data["done"]
        return f"{self.data['attempts'] / done:.2f}" if done else "–"

    @property
    def cost(self) -> str:
        return dollars(self.data["cost"])

    def share(self, name: str) -> int | None:
        done = self.data["done"]
        return round(100 * self.data[name] / done) if done else None


def list_periods(figures: Sequence[Mapping[str, Any]], *, unit: str, today: date) -> list[Period]:
    sums: dict[date, dict[str, Any]] = defaultdict(NOTHING.copy)
    for figure in figures:
        for day, data in figure["days"].items():
            period = sums[first_day(date.fromisoformat(day), unit)]
            for name in COUNTS:
                period[name] += data[name]
            if data["cost"] is not None:
                period["cost"] = (period["cost"] or 0) + data["cost"]
    starts = list_starts(unit, today)
    # The list begins with the first period that has work.
    oldest = min(sums, default=today)
    return [describe_period(start, unit, sums[start], today) for start in starts if start >= oldest]


def list_units(unit: str) -> list[tuple[str | None, str, bool]]:
    return [(None, "Weeks", unit == "week"), ("month", "Months", unit == "month")]


def first_day(day: date, unit: str) -> date:
    return day.replace(day=1) if unit == "month" else day - timedelta(days=day.weekday())


def list_starts(unit: str, today: date) -> Iterable[date]:
    starts = [first_day(today, unit)]
    while len(starts) < SHOWN:
        starts.append(first_day(starts[-1] - timedelta(days=1), unit))
    return reversed(starts)


def describe_period(start: date, unit: str, data: Mapping[str, Any], today: date) -> Period:
    after = first_day(start + timedelta(days=31 if unit == "month" else 7), unit)
    last = after - timedelta(days=1)
    is_over = today > last
    if unit == "month":
        return Period(f"{start:%B %Y}", "" if is_over else "not over", is_over, data)
    end = last if is_over else today
    dates = f"{start:%b} {start.day} to {end:%b} {end.day}{'' if is_over else ', not over'}"
    return Period(f"Week {start.isocalendar().week}", dates, is_over, data)


def compare_last(periods: Sequence[Period]) -> str:
    """Return a sentence that compares the last complete period with the one before it."""
    over = [each for each in periods if each.is_over]
    if not over or not over[-1].data["done"]:
        return ""
    last = over[-1]
    text = f"{last.name}: {counted(last.data['done'], 'task', 'tasks')} done, "
    text += f"{last.first_percent}% at the first attempt"
    text += "." if last.data["cost"] is None else f", {last.cost}."
    if len(over) < 2 or not over[-2].data["done"]:
        return text
    before = over[-2]
    tasks = last.data["done"] - before.data["done"]
    points = (last.first_percent or 0) - (before.first_percent or 0)
    changes = [
        f"{counted(abs(tasks), 'task', 'tasks')} {'fewer' if tasks < 0 else 'more'}",
        f"{counted(abs(points), 'point', 'points')} {'less' if points < 0 else 'more'}",
    ]
    if last.data["cost"] is not None and before.data["cost"] is not None:
        cost = last.data["cost"] - before.data["cost"]
        changes.append(f"{dollars(abs(cost))} {'less' if cost < 0 else 'more'}")
    return f"{text} Compared with {before.name}: {', '.join(changes)}."
