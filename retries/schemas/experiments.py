"""Schemas of experiments on the retry context."""

from datetime import datetime
from typing import Any
from uuid import UUID

from ninja import Schema
from pydantic import Field, StrictInt

from ledger.schemas.shapes import AT, Part, Shape, field
from ledger.schemas.shared import In
from retries.insight.experiments import REASON_LENGTH, list_needed, measure_difference
from retries.models.experiment import DEFAULT_SHARE, LEAST_SHARE, MOST_SHARE
from retries.states import ContextElement

SHARE = "percentage of the tasks whose contexts lack the element"


class NeededQuery(Schema):
    share: int = Field(DEFAULT_SHARE, ge=LEAST_SHARE, le=MOST_SHARE, description=SHARE)


class TasksNeededOut(Part):
    points: int = field("the difference between the sides, in percentage points", 10)
    tasks: int = field(
        "number of tasks with a second attempt that four of five experiments need to find it, at "
        "most",
        783,
    )


class NeededOut(Shape):
    share: int = field(SHARE, 50)
    needed: list[TasksNeededOut] = field("the tasks that each difference needs")


def as_points(share: float) -> float:
    return round(100 * share, 1)


class DifferenceOut(Part):
    points: float = field(
        "the successes without the element minus those with it, in percentage points",
        -12.4,
        source=lambda found: as_points(found.value),
    )
    low: float = field(
        "the lower end of its 95% interval", -22.1, source=lambda found: as_points(found.low)
    )
    high: float = field(
        "the upper end of its 95% interval", -2.8, source=lambda found: as_points(found.high)
    )
    is_conclusive: bool = field("true if the interval leaves out 0", True)


class ExperimentOut(Shape):
    id: UUID = field("the experiment's id", source="pk")
    element: ContextElement = field("the element that is left out", "known")
    share: int = field(SHARE, 20)
    started_at: datetime = field("when it began")
    started_by: str = field("who started it", "mara", source="started_by_name")
    start_reason: str = field("why it was started", "do they help?")
    ended_at: datetime | None = field("when it ended, or null")
    ended_by: str = field("who ended it, or empty", source="ended_by_name")
    end_reason: str = field("why it was ended, or empty")
    counted_at: datetime | None = field("when attempts were last counted, or null", AT)
    with_attempts: int = field("number of attempts that had the element", 486)
    without_attempts: int = field("number of attempts that lacked the element", 120)
    difference: DifferenceOut | None = field(
        "null below 50 attempts on either side", source=measure_difference
    )


class ExperimentIn(In, example={"element": "known", "share": 20, "reason": "do they help?"}):
    element: str = Field(
        max_length=24, description=f"what to leave out: {', '.join(ContextElement.values)}"
    )
    share: StrictInt = Field(DEFAULT_SHARE, ge=LEAST_SHARE, le=MOST_SHARE, description=SHARE)
    reason: str = Field(min_length=1, max_length=REASON_LENGTH, description="why, for the journal")


class EndIn(In, example={"reason": "enough attempts"}):
    reason: str = Field(min_length=1, max_length=REASON_LENGTH, description="why, for the journal")


def needed_out(share: int) -> dict[str, Any]:
    needed = [{"points": points, "tasks": tasks} for points, tasks in list_needed(share).items()]
    return {"share": share, "needed": needed}
