"""Describe and draw the tokens and the cost that agents report (pure)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dashboard.charts.sparklines import Spark, spark
from dashboard.insight.combined import LISTED, RowGroup
from dashboard.wording.formatting import count_tokens, dollars
from retries.insight.figures.costs import LEAST_TASKS, add_groups

NAMED = 3  # agents named among those that report no usage
KINDS = (("plan", "Plan"), ("agent", "Agent"), ("model", "Model"))
NAMELESS = {"plan": "Tasks without a plan", "model": "Not reported"}
# A share of a third or more that was spent on failed attempts is highlighted.
MUCH = 33


@dataclass(frozen=True, slots=True)
class CostRow:
    """The usage of an agent's or plan's attempts, or of tasks without a plan."""

    kind: str
    data: Mapping[str, Any]
    most: float  # the whole width of the bar, in dollars or in tokens

    @property
    def name(self) -> str:
        return self.data["name"] or ("" if self.data["id"] else NAMELESS.get(self.kind, ""))

    @property
    def is_linked(self) -> bool:
        return self.kind != "model" and bool(self.data["id"])

    @property
    def tokens(self) -> str:
        return count_tokens(self.data["tokens"])

    @property
    def cost(self) -> str:
        return dollars(self.data["cost"])

    @property
    def per_task(self) -> str:
        # An estimate: the cost includes all that failed on the way.
        if self.data["cost"] is None or self.data["done"] < LEAST_TASKS:
            return "–"
        return dollars(self.data["cost"] / self.data["done"])

    @property
    def failed_percent(self) -> int:
        whole, failed = weigh(self.data)
        return round(100 * failed / whole) if whole else 0

    @property
    def is_much(self) -> bool:
        return self.failed_percent >= MUCH

    @property
    def ok_width(self) -> str:
        whole, failed = weigh(self.data)
        return f"{100 * (whole - failed) / self.most:.1f}%" if self.most else "0%"

    @property
    def width(self) -> str:
        return f"{100 * weigh(self.data)[0] / self.most:.1f}%" if self.most else "0%"

    @property
    def trend(self) -> Spark | None:
        return spark(self.data["slots"], floor=0)

    @property
    def trend_spoken(self) -> str:
        words = count_tokens if self.data["cost"] is None else dollars
        slots = self.data["slots"]
        return f"Over time: at most {words(max(slots))}, last {words(slots[-1])}" if slots else ""


@dataclass(frozen=True, slots=True)
class Reports:
    """The number of agents with finished tasks that report their usage, and the missing reports."""

    agents: int
    reporting: int
    done: int
    missing: int
    silent: list[str]

    @property
    def not_reporting(self) -> int:
        return self.agents - self.reporting

    @property
    def more_silent(self) -> int:
        return self.not_reporting - len(self.silent)


@dataclass(frozen=True, slots=True)
class CostFigures:
    """The usage of all projects' attempts."""

    groups: list[RowGroup]
    tasks: int
    tokens: str
    cost: str
    failed_percent: int
    reports: Reports


def combine_costs(figures: Sequence[Mapping[str, Any]]) -> CostFigures | None:
    """Return the figures of all projects as one, or None if no agent has reported any."""
    wholes = [each["all"] for each in figures if each["all"]]
    if not wholes:
        return None
    whole = add_groups(wholes)
    spent, failed = weigh(whole)
    return CostFigures(
        [combine_group(kind, label, figures, whole) for kind, label in KINDS],
        whole["n"],
        count_tokens(whole["tokens"]),
        dollars(whole["cost"]),
        round(100 * failed / spent) if spent else 0,
        combine_reports(figures),
    )


def combine_reports(figures: Sequence[Mapping[str, Any]]) -> Reports:
    # The figures of an older release have no `reports`.
    found = [each["reports"] for each in figures if "reports" in each]
    counts = {
        name: sum(each[name] for each in found)
        for name in ("agents", "reporting", "done", "missing")
    }
    return Reports(**counts, silent=[name for each in found for name in each["silent"]][:NAMED])


def combine_group(
    kind: str, label: str, figures: Sequence[Mapping[str, Any]], whole: Mapping[str, Any]
) -> RowGroup:
    # The figures of an older release have no `model` and no `rest`.
    parts = [each[kind] for each in figures if kind in each]
    rows = sorted(
        (row for part in parts for row in part["rows"]),
        key=lambda row: (-(row["cost"] or 0), -row["tokens"], row["name"]),
    )
    shown, others = rows[:LISTED], rows[LISTED:]
    rests = [part for part in parts if part.get("rest")]
    more = len(others) + sum(part["more"] for part in rests)
    # Dollars and tokens share no scale.
    costs = max((row["cost"] for row in shown if row["cost"] is not None), default=0.0)
    tokens = max((row["tokens"] for row in shown if row["cost"] is None), default=0.0)
    found = [CostRow(kind, row, tokens if row["cost"] is None else costs) for row in shown]
    if more:
        rest = add_groups([*others, *(part["rest"] for part in rests)])
        found.append(sum_row(f"{more:,} more", rest))
    if len(found) > 1:
        found.append(sum_row("All", whole))
    return RowGroup(found, 0, 0, kind, label)


def sum_row(name: str, data: Mapping[str, Any]) -> CostRow:
    # A sum has no scale to compare its bar by.
    return CostRow("sum", {**data, "id": "", "name": name, "slots": []}, most=0)


def weigh(data: Mapping[str, Any]) -> tuple[float, float]:
    """Return the cost, or else the tokens, and the part of it in attempts that failed."""
    if data["cost"] is not None:
        return float(data["cost"]), float(data["cost_failed"])
    return float(data["tokens"]), float(data["tokens_failed"])
