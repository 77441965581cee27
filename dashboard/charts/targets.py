"""Describe and draw how far agents meet their targets for times (pure)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dashboard.wording.formatting import counted, percent_text, rough_duration
from ledger.models import Agent, Project

# From this rate on, the budget of 30 days is gone in less than 15.
FAST = 2.0
WEEK_DAYS = 7
MOST_OPTIONS = 200  # of each kind, in a form
# by measure: its label, the cases that it counts, and how one of them meets the target
MEASURES = {
    "ack": ("Acknowledgment", "instruction", "acknowledged"),
    "wait": ("Wait", "task", "claimed"),
    "run": ("Run", "attempt", "ended"),
}


@dataclass(frozen=True, slots=True)
class TargetRow:
    """An agent, a type, or a plan with its target, its error budget and how much of it is spent."""

    data: Mapping[str, Any]
    least: int

    @property
    def measure(self) -> str:
        # The rows of acknowledgments have none.
        return str(self.data.get("measure", "ack"))

    @property
    def kind(self) -> str:
        # An earlier version stored the rows of agents alone, without a kind.
        return str(self.data.get("kind", "agent"))

    @property
    def subject(self) -> str:
        return subject_of(self.kind, self.data["id"], self.data.get("project", ""))

    @property
    def label(self) -> str:
        return MEASURES[self.measure][0]

    @property
    def cases(self) -> str:
        return counted(self.data["n"], MEASURES[self.measure][1])

    @property
    def ends(self) -> str:
        return MEASURES[self.measure][2]

    @property
    def is_shown(self) -> bool:
        return bool(self.data["n"] >= self.least)

    @property
    def target(self) -> str:
        return f"{self.data['percent']}% in {rough_duration(self.data['within_s'])}"

    @property
    def met(self) -> str:
        return percent_text(self.data["met"] / self.data["n"])

    @property
    def budget(self) -> int:
        """The number of cases in 30 days that may be late or missing."""
        return int((100 - self.data["percent"]) * self.data["n"] / 100)

    @property
    def spent(self) -> int:
        return int(self.data["n"] - self.data["met"])

    @property
    def spent_percent(self) -> int:
        return min(100, 100 * self.spent // self.budget if self.budget else 100 * bool(self.spent))

    @property
    def burn(self) -> float | None:
        """The burn rate of the last week: at 1 the budget lasts exactly 30 days."""
        if not self.data["week_n"]:
            return None
        late = 1 - self.data["week_met"] / self.data["week_n"]
        return float(late / (1 - self.data["percent"] / 100))

    @property
    def left(self) -> int:
        return max(0, self.budget - self.spent)

    @property
    def days_left(self) -> int | None:
        """The days until the budget ends at the last week's rate; None if it can't or has ended."""
        late = self.data["week_n"] - self.data["week_met"]
        if not late or not self.left:
            return None
        return int(self.left * WEEK_DAYS / late)

    @property
    def state(self) -> str:
        if self.spent > self.budget:
            return "Budget spent"
        return "Burning fast" if (self.burn or 0) > FAST else "On target"

    @property
    def css(self) -> str:
        return {"Budget spent": "is-red", "Burning fast": "is-amber"}.get(self.state, "")

    @property
    def icon(self) -> str:
        return {"Budget spent": "s-failed", "Burning fast": "f-timeout"}.get(self.state, "check")


@dataclass(frozen=True, slots=True)
class SubjectGroup:
    """The agents, types, or plans that a form offers: each with its value and name."""

    label: str
    options: list[tuple[str, str]]


def subject_of(kind: str, id: str, project_id: object) -> str:
    # a type's name says nothing about its project, and may contain colons
    return f"type:{project_id}:{id}" if kind == "type" else f"{kind}:{id}"


def list_subjects(
    agents: Sequence[Agent],
    times: Sequence[tuple[Project, Mapping[str, Any]]],
    targets: Sequence[TargetRow],
    *,
    shows_project: bool,
) -> list[SubjectGroup]:
    groups = [SubjectGroup("Agents", [(f"agent:{each.pk}", each.name) for each in agents])]
    for kind, label in (("type", "Types"), ("plan", "Plans")):
        rows = [(row, project) for project, data in times for row in data[kind]["rows"]]
        rows.sort(key=lambda each: -each[0]["n"])
        options = {
            subject_of(kind, row["id"], project.pk): (
                f"{row['name']} · {project.name}" if shows_project else row["name"]
            )
            for row, project in rows[:MOST_OPTIONS]
        }
        own = {row.subject: row.data["name"] for row in targets if row.kind == kind}
        groups.append(SubjectGroup(label, [*(own | options).items()]))
    return [each for each in groups if each.options]


def read_figures(*figures: Mapping[str, Any] | None) -> list[TargetRow]:
    return [TargetRow(row, each["least"]) for each in figures if each for row in each["rows"]]


def list_targets(figures: Sequence[Mapping[str, Any]]) -> list[TargetRow]:
    # Those that miss their target come first, then the names decide.
    rows = read_figures(*figures)
    order = ("Budget spent", "Burning fast", "On target")
    return sorted(
        rows,
        key=lambda row: (
            order.index(row.state) if row.is_shown else 9,
            row.data["name"],
            list(MEASURES).index(row.measure),
        ),
    )
