"""Draw how agents spent their time (pure)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from dashboard.wording.formatting import few, rough_duration
from retries.insight.figures.idle_agents import LEAST_HOURS

LISTED = 12
PARTS = (
    ("work", "Working", "i-work"),
    ("person", "Waiting for a person", "i-person"),
    ("none", "Waiting for work", "i-none"),
    ("breaker", "Breaker open", "i-breaker"),
)


@dataclass(frozen=True, slots=True)
class IdlePart:
    """A part of an agent's time and its place in the bar, in percent."""

    label: str
    css: str
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class IdleRow:
    """An agent's time."""

    data: Mapping[str, Any]

    @property
    def parts(self) -> list[IdlePart]:
        found, x = [], 0.0
        for name, label, css in PARTS:
            width = round(100 * seconds_of(self.data, name) / (self.data["known"] or 1), 1)
            found.append(IdlePart(label, css, round(x, 1), width))
            x += width
        return found

    @property
    def spoken(self) -> str:
        shares = ", ".join(f"{part.label.lower()} {part.width:.0f}%" for part in self.parts)
        return f"{self.data['name']}: {shares}"

    @property
    def for_person(self) -> str:
        return rough_duration(self.data["person"])


@dataclass(frozen=True, slots=True)
class IdleFigures:
    """The time of the agents of all projects; those that waited longest for a person first."""

    rows: list[IdleRow]
    more: int
    agents: int
    for_person: str
    share: int  # the share of all their time, in percent
    for_work: str
    attended: float  # the seconds that agents worked while a person was on duty
    on_duty: float  # the seconds that people were on duty
    least_hours: int

    @property
    def hours_on_duty(self) -> int:
        return int(self.on_duty // 3600)

    @property
    def per_person(self) -> str:
        """Return how many agents worked at once per person on duty; empty with too few hours."""
        if self.hours_on_duty < self.least_hours:
            return ""
        return few(self.attended / self.on_duty)


def seconds_of(data: Mapping[str, Any], name: str) -> float:
    if name != "none":
        return float(data[name])
    rest = float(data["known"] - data["work"] - data["person"] - data["breaker"])
    return max(0.0, rest)


def combine_idle(figures: Sequence[Mapping[str, Any]], *, most: int = LISTED) -> IdleFigures:
    rows = sorted(
        (IdleRow(row) for each in figures for row in each["rows"]),
        key=lambda row: (-row.data["person"], row.data["name"]),
    )
    totals = [each["totals"] for each in figures]
    known = sum(each["known"] for each in totals)
    person = sum(each["person"] for each in totals)
    agents = sum(each["agents"] for each in figures)
    # The figures of an older release have neither `duty` nor `attended`.
    return IdleFigures(
        rows[:most],
        agents - len(rows[:most]),
        agents,
        rough_duration(person),
        round(100 * person / known) if known else 0,
        rough_duration(sum(seconds_of(each, "none") for each in totals)),
        sum(each.get("attended", 0.0) for each in totals),
        measure_duty([each.get("duty", {}) for each in figures]),
        max((each.get("least_hours", LEAST_HOURS) for each in figures), default=LEAST_HOURS),
    )


def measure_duty(projects: Sequence[Mapping[str, Sequence[Sequence[int]]]]) -> float:
    """Return the seconds that people were on duty: each person's time once, in all projects."""
    by_person: dict[str, list[Sequence[int]]] = defaultdict(list)
    for duty in projects:
        for person, times in duty.items():
            by_person[person] += times
    named = [times for person, times in by_person.items() if person]
    # Views without a name count as one person, while no named person is on duty.
    anyone = measure(chain(*by_person.values()))
    return sum(map(measure, named)) + anyone - measure(chain(*named))


def measure(times: Iterable[Sequence[int]]) -> float:
    """Return the total length of times that may overlap.

    >>> measure([(50, 60), (0, 10), (5, 20), (7, 9)])
    30.0
    """
    length, until = 0.0, float("-inf")
    for began, ended in sorted(tuple(each) for each in times):
        length += max(0.0, ended - max(began, until))
        until = max(until, ended)
    return length
