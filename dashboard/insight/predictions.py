"""Combine the predictions of projects, and draw how good they were (pure)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any
from uuid import UUID

LISTED = 8
# Tasks below this chance of needing a person are only counted.
LEAST_CHANCE = 0.25
# the plot of predicted and observed shares, in pixels
LEFT, TOP, SIDE = 30, 8, 176
SMALLEST, LARGEST = 3.0, 7.0
SAME = {
    "signature": "same signature",
    "pattern": "same pattern",
    "agent": "same agent and type",
    "kind": "same type",
}


@dataclass(frozen=True, slots=True)
class LikelyTask:
    """A task under way that will probably need a person."""

    row: Any
    chance: float
    tasks: int
    level: str

    @property
    def percent(self) -> int:
        return round(100 * self.chance)

    @property
    def same(self) -> str:
        return SAME.get(self.level, self.level)


@dataclass(frozen=True, slots=True)
class Point:
    """A tenth of the predictions: a place in the plot, and a size by its number of cases."""

    x: float
    y: float
    r: float
    predicted: int
    observed: int


@dataclass(frozen=True, slots=True)
class PredictionFigures:
    """The predictions of tasks under way, and the score of the predictions before."""

    likely: list[LikelyTask]
    below: int
    hidden: int
    cases: int
    brier: float | None
    base: float | None
    points: list[Point]

    @property
    def spoken(self) -> str:
        told = (
            f"{each.predicted} percent predicted, {each.observed} observed" for each in self.points
        )
        return "Predicted and observed share that needed a person: " + "; ".join(told)


def list_ids(figures: Sequence[Mapping[str, Any]]) -> list[UUID]:
    return [UUID(each["task"]) for figure in figures for each in figure["likely"]]


def combine_figures(
    figures: Sequence[Mapping[str, Any]], tasks: Mapping[UUID, Any]
) -> PredictionFigures:
    # `tasks` has only those that are still under way.
    likely = [
        LikelyTask(tasks[id], each["chance"], each["n"], each["level"])
        for figure in figures
        for each in figure["likely"]
        if (id := UUID(each["task"])) in tasks
    ]
    likely.sort(key=lambda each: -each.chance)
    shown = [each for each in likely if each.chance >= LEAST_CHANCE][:LISTED]
    scored = [each for each in figures if each["cases"]]
    cases = sum(each["cases"] for each in scored)
    bins: dict[int, list[Mapping[str, Any]]] = {}
    for figure in scored:
        for each in figure["bins"]:
            bins.setdefault(min(int(10 * each["predicted"]), 9), []).append(each)
    return PredictionFigures(
        likely=shown,
        below=sum(each["shown"] for each in figures) - len(shown),
        hidden=sum(each["hidden"] for each in figures),
        cases=cases,
        brier=average(scored, "brier") if cases else None,
        base=average(scored, "base") if cases else None,
        points=[draw_point(found, cases) for _, found in sorted(bins.items(), reverse=True)],
    )


def average(figures: Sequence[Mapping[str, Any]], name: str) -> float:
    cases = sum(each["cases"] for each in figures)
    return float(sum(each[name] * each["cases"] for each in figures) / cases)


def draw_point(bins: Sequence[Mapping[str, Any]], cases: int) -> Point:
    # The stored shares are of tasks that needed no person; the plot shows the others.
    predicted, observed = 1 - average(bins, "predicted"), 1 - average(bins, "observed")
    size = sqrt(sum(each["cases"] for each in bins) / cases)
    return Point(
        x=round(LEFT + SIDE * predicted, 1),
        y=round(TOP + SIDE * (1 - observed), 1),
        r=round(SMALLEST + (LARGEST - SMALLEST) * size, 1),
        predicted=round(100 * predicted),
        observed=round(100 * observed),
    )
