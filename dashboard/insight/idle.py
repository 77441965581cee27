"""Draw how agents spent their time (pure)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dashboard.formatting import few, rough_duration

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
    people: int
    for_person: str
    share: int  # of all their time, in percent
    for_work: str

    @property
    def per_person(self) -> str:
        """Return how many agents each person who answered kept busy."""
        return few(self.agents / self.people) if self.people else ""


def seconds_of(data: Mapping[str, Any], name: str) -> float:
    if name != "none":
        return float(data[name])
    rest = float(data["known"] - data["work"] - data["person"] - data["breaker"])
    return max(0.0, rest)


def combine_idle(figures: Sequence[Mapping[str, Any]], *, most: int = LISTED) -> IdleFigures:
    """Return the time of the agents of these projects, with the rows of `most` agents."""
    rows = sorted(
        (IdleRow(row) for each in figures for row in each["rows"]),
        key=lambda row: (-row.data["person"], row.data["name"]),
    )
    totals = [each["totals"] for each in figures]
    known = sum(each["known"] for each in totals)
    person = sum(each["person"] for each in totals)
    agents = sum(each["agents"] for each in figures)
    return IdleFigures(
        rows[:most],
        agents - len(rows[:most]),
        agents,
        sum(each["people"] for each in figures),
        rough_duration(person),
        round(100 * person / known) if known else 0,
        rough_duration(sum(seconds_of(each, "none") for each in totals)),
    )
