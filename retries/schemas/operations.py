"""Schemas of operations."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from ninja import Schema
from pydantic import ConfigDict, Field

from ledger.schemas.shapes import AT, ID
from ledger.schemas.shared import STATES, Listed, PageQuery
from retries.models import Operation

OperationStateName = Literal["waiting", "running", "done", "stopped", "undone"]
OPERATION: dict[str, Any] = {
    "id": ID,
    "verb": "task.retry",
    "query": "state:needs-you pattern:lxml",
    "reason": "lxml is on the mirror again",
    "state": "running",
    "matching": 412,
    "total": 403,
    "changed": 268,
    "refused": 6,
    "left": 129,
    "started_by": "mara",
    "counted_at": AT,
    "starts_at": AT,
    "started_at": AT,
    "ended_at": None,
}
REFUSALS: dict[str, Any] = {"why": "Already answered", "count": 6}


class OperationQuery(PageQuery):
    state: str = Field("", description=STATES)


class OperationOut(Schema):
    id: UUID = Field(description="the operation's id")
    verb: str = Field(description="what it does to each row, such as task.retry")
    query: str = Field(description="the filter that chose the rows; empty if they were ticked")
    reason: str = Field(description="why a person started it")
    state: OperationStateName = Field(description="it can be undone while it waits")
    matching: int = Field(description="number of rows that the person chose")
    total: int = Field(description="number of those that it could change when it was counted")
    changed: int = Field(description="number of rows that it has changed")
    refused: int = Field(
        description="number of rows that it left, because they could no longer be changed"
    )
    left: int = Field(description="number of rows whose turn has not come")
    started_by: str = Field(description="who started it")
    counted_at: datetime = Field(description="when the rows were counted")
    starts_at: datetime = Field(description="until when it can be undone")
    started_at: datetime | None = Field(description="when a worker began, or null")
    ended_at: datetime | None = Field(description="when it ended, or null")

    model_config = ConfigDict(json_schema_extra={"example": OPERATION})


class RefusalCount(Schema):
    why: str = Field(description="why rows were left, in a few words")
    count: int = Field(description="number of such rows")

    model_config = ConfigDict(json_schema_extra={"example": REFUSALS})


class OperationDetailOut(OperationOut):
    refusals: list[RefusalCount] = Field(description="why rows were left, most frequent first")

    model_config = ConfigDict(json_schema_extra={"example": OPERATION | {"refusals": [REFUSALS]}})


class OperationList(Listed):
    data: list[OperationOut] = Field(description="operations, newest first")

    model_config = ConfigDict(
        json_schema_extra={"example": {"data": [OPERATION], "next_cursor": None, "has_more": False}}
    )


def operation_out(row: Operation) -> dict[str, Any]:
    """Return an operation as the API shows it."""
    names = ("id", "verb", "query", "reason", "state", "matching", "total", "changed", "refused")
    times = ("counted_at", "starts_at", "started_at", "ended_at")
    return {
        **{name: getattr(row, name) for name in names},
        "left": row.left,
        "started_by": row.actor_name,
        **{name: getattr(row, name) for name in times},
    }
