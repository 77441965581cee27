"""Draw how long answers to escalations take (pure)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dashboard.wording.formatting import rough_duration

PHASES = (
    ("Unseen", "q1", "no one has opened it"),
    ("Thinking", "q2", "opened, not answered"),
    ("Waiting", "q3", "answered, not picked up"),
    ("Running", "q4", "the attempt after it"),
)


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase of the median case, with its place in the bar, in percent of the longest case."""

    label: str
    css: str
    meaning: str
    length: str
    x: str
    width: str


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """The answered escalations of a reason in a project, or all of a project."""

    project: str
    reason: str
    data: Mapping[str, Any]
    least: int
    longest: float  # the whole width of the bar, in seconds

    @property
    def is_shown(self) -> bool:
        return "phases" in self.data

    @property
    def total(self) -> float:
        return float(sum(self.data["phases"]))

    @property
    def median(self) -> str:
        return rough_duration(self.total)

    @property
    def within(self) -> str:
        return rough_duration(self.data["within"])

    @property
    def finding(self) -> str:
        names = [label for label, _, _ in PHASES]
        phases = dict(zip(names, self.data["phases"], strict=True))
        if self.total and phases["Unseen"] >= self.total / 2:
            return "Half of the wait or more is before anyone looks."
        if self.total and phases["Running"] >= self.total / 2:
            return "Half of the wait or more is the next attempt."
        return ""

    @property
    def phases(self) -> list[Phase]:
        found, x = [], 0.0
        for (label, css, meaning), seconds in zip(PHASES, self.data["phases"], strict=True):
            width = 100 * seconds / self.longest if self.longest else 0.0
            length = rough_duration(seconds)
            found.append(Phase(label, css, meaning, length, f"{x:.2f}%", f"{width:.2f}%"))
            x += width
        return found


@dataclass(frozen=True, slots=True)
class AnswerTime:
    """How soon the escalations of a person or a policy were answered."""

    project: str
    name: str
    data: Mapping[str, Any]
    least: int

    @property
    def is_shown(self) -> bool:
        return "median" in self.data

    @property
    def median(self) -> str:
        return rough_duration(self.data["median"])

    @property
    def within(self) -> str:
        return rough_duration(self.data["within"])


def list_times(figures: Sequence[tuple[str, Mapping[str, Any]]], kind: str) -> list[AnswerTime]:
    # figures that an earlier version computed have no such groups
    return [
        AnswerTime(project, each["name"], each, data["least"])
        for project, data in figures
        for each in data.get(f"by_{kind}", ())
    ]


def list_answers(figures: Sequence[tuple[str, Mapping[str, Any]]]) -> list[AnswerRow]:
    rows = [(project, data["least"], each) for project, data in figures for each in data["reasons"]]
    totals = [sum(each["phases"]) for _, _, each in rows if "phases" in each]
    # The bars of all rows have one scale.
    longest = max(totals, default=0.0)
    return [
        AnswerRow(project, each["reason"], each, least, longest) for project, least, each in rows
    ]


def find_typical(figures: Sequence[tuple[str, Mapping[str, Any]]]) -> list[AnswerRow]:
    return [
        AnswerRow(project, "", data["all"], data["least"], sum(data["all"]["phases"]))
        for project, data in figures
        if "phases" in data["all"]
    ]
