"""Schemas of experiments on the retry context."""

from datetime import datetime
from typing import Any
from uuid import UUID

from ninja import Schema
from pydantic import ConfigDict, Field, StrictInt

from ledger.schemas.shapes import AT, ID
from ledger.schemas.shared import In, Listed
from retries.insight.experiments import (
    REASON_LENGTH,
    list_needed,
    measure_difference,
)
from retries.models import ContextExperiment
from retries.models.experiment import DEFAULT_SHARE, LEAST_SHARE, MOST_SHARE
from retries.states import ContextElement

SHARE = "percentage of the tasks whose contexts lack the element"
NEEDED: dict[str, Any] = {"share": 50, "needed": [{"points": 10, "tasks": 783}]}
EXPERIMENT: dict[str, Any] = {
    "id": ID,
    "element": "known",
    "share": 20,
    "started_at": AT,
    "started_by": "mara",
    "start_reason": "do they help?",
    "ended_at": None,
    "ended_by": "",
    "end_reason": "",
    "counted_at": AT,
    "with_attempts": 486,
    "without_attempts": 120,
    "difference": {"points": -12.4, "low": -22.1, "high": -2.8, "is_conclusive": True},
}


class NeededQuery(Schema):
    share: int = Field(DEFAULT_SHARE, ge=LEAST_SHARE, le=MOST_SHARE, description=SHARE)


class TasksNeededOut(Schema):
    points: int = Field(description="the difference between the sides, in percentage points")
    tasks: int = Field(
        description="number of tasks with a second attempt that four of five experiments need to "
        "find it, at most"
    )


class NeededOut(Schema):
    share: int = Field(description=SHARE)
    needed: list[TasksNeededOut] = Field(description="the tasks that each difference needs")

    model_config = ConfigDict(json_schema_extra={"example": NEEDED})


class DifferenceOut(Schema):
    points: float = Field(
        description="the successes without the element minus those with it, in percentage points"
    )
    low: float = Field(description="the lower end of its 95% interval")
    high: float = Field(description="the upper end of its 95% interval")
    is_conclusive: bool = Field(description="true if the interval leaves out 0")


class ExperimentOut(Schema):
    id: UUID = Field(description="the experiment's id")
    element: ContextElement = Field(description="the element that is left out")
    share: int = Field(description=SHARE)
    started_at: datetime = Field(description="when it began")
    started_by: str = Field(description="who started it")
    start_reason: str = Field(description="why it was started")
    ended_at: datetime | None = Field(description="when it ended, or null")
    ended_by: str = Field(description="who ended it, or empty")
    end_reason: str = Field(description="why it was ended, or empty")
    counted_at: datetime | None = Field(description="when attempts were last counted, or null")
    with_attempts: int = Field(description="number of attempts that had the element")
    without_attempts: int = Field(description="number of attempts that lacked the element")
    difference: DifferenceOut | None = Field(description="null below 50 attempts on either side")

    model_config = ConfigDict(json_schema_extra={"example": EXPERIMENT})


class ExperimentList(Listed):
    data: list[ExperimentOut] = Field(description="experiments, newest first")

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"data": [EXPERIMENT], "next_cursor": None, "has_more": False}
        }
    )


class ExperimentIn(In):
    element: str = Field(
        max_length=24, description=f"what to leave out: {', '.join(ContextElement.values)}"
    )
    share: StrictInt = Field(DEFAULT_SHARE, ge=LEAST_SHARE, le=MOST_SHARE, description=SHARE)
    reason: str = Field(min_length=1, max_length=REASON_LENGTH, description="why, for the journal")

    model_config = ConfigDict(
        json_schema_extra={"example": {"element": "known", "share": 20, "reason": "do they help?"}}
    )


class EndIn(In):
    reason: str = Field(min_length=1, max_length=REASON_LENGTH, description="why, for the journal")

    model_config = ConfigDict(json_schema_extra={"example": {"reason": "enough attempts"}})


def needed_out(share: int) -> dict[str, Any]:
    """Return how many tasks show each difference, as the API shows it."""
    needed = [{"points": points, "tasks": tasks} for points, tasks in list_needed(share).items()]
    return {"share": share, "needed": needed}


def experiment_out(row: ContextExperiment) -> dict[str, Any]:
    """Return an experiment as the API shows it."""
    found = measure_difference(row)
    points = found and {
        name: round(100 * value, 1)
        for name, value in (("points", found.value), ("low", found.low), ("high", found.high))
    }
    return {
        "id": row.pk,
        "element": row.element,
        "share": row.share,
        "started_at": row.started_at,
        "started_by": row.started_by_name,
        "start_reason": row.start_reason,
        "ended_at": row.ended_at,
        "ended_by": row.ended_by_name,
        "end_reason": row.end_reason,
        "counted_at": row.counted_at,
        "with_attempts": row.with_attempts,
        "without_attempts": row.without_attempts,
        "difference": points | {"is_conclusive": found.is_conclusive} if found and points else None,
    }
