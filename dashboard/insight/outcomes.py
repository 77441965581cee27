"""Draw how tasks ended by agent, plan and pattern, and how well rules are followed (pure)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dashboard.charts.sparklines import Spark, spark
from dashboard.insight.combined import RowGroup, combine_rows

# the bars of done tasks by attempts, in pixels
WIDTH, STEP, HEIGHT = 22, 26, 26
KINDS = (("agent", "Agent"), ("plan", "Plan"), ("pattern", "Pattern"))


@dataclass(frozen=True, slots=True)
class Bar:
    """The share of tasks that were done after so many attempts at most."""

    x: int
    y: float
    height: float
    is_useful: bool


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    """The tasks of an agent, a plan or a pattern."""

    kind: str
    data: Mapping[str, Any]

    @property
    def bars(self) -> list[Bar]:
        heights = [max(0.5, HEIGHT * share / 100) for share in self.data["shares"]]
        useful = self.data["most_useful"]
        return [
            Bar(STEP * n, round(HEIGHT - height, 1), round(height, 1), n < useful)
            for n, height in enumerate(heights)
        ]

    @property
    def spoken(self) -> str:
        shares = ", ".join(f"{share} percent" for share in self.data["shares"])
        return f"Done after 1, 2, 3, 4 attempts: {shares}"

    @property
    def done(self) -> int:
        return int(self.data["shares"][-1])

    @property
    def trend(self) -> Spark | None:
        return spark(self.data["slots"], floor=0)

    @property
    def trend_spoken(self) -> str:
        known = [each for each in self.data["slots"] if each is not None]
        return f"Done over time: from {known[0]} to {known[-1]} percent" if known else ""


def list_outcomes(figures: Sequence[Mapping[str, Any]]) -> list[RowGroup]:
    return [list_kind(kind, label, figures) for kind, label in KINDS]


def list_kind(kind: str, label: str, figures: Sequence[Mapping[str, Any]]) -> RowGroup:
    own = [each[kind] for each in figures]
    found = combine_rows(own, key=lambda row: -row["n"], kind=kind, label=label)
    return replace(found, rows=[OutcomeRow(kind, row) for row in found.rows])


def list_rules(figures: Sequence[Mapping[str, Any]]) -> RowGroup:
    """Return all projects' rules, least followed first."""
    return combine_rows(figures, key=lambda row: (row["followed"], row["at_once"]))
