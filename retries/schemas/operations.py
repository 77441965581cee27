"""Schemas of operations."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import Field

from ledger.schemas.shapes import AT, Shape, field
from ledger.schemas.shared import STATES, PageQuery

OperationStateName = Literal["waiting", "running", "done", "stopped", "undone"]


class OperationQuery(PageQuery):
    state: str = Field("", description=STATES)


class OperationOut(Shape):
    id: UUID = field("the operation's id")
    verb: str = field("what it does to each row, such as task.retry", "task.retry")
    query: str = field(
        "the filter that chose the rows; empty if they were ticked", "state:needs-you pattern:lxml"
    )
    reason: str = field("why a person started it", "lxml is on the mirror again")
    state: OperationStateName = field("it can be undone while it waits", "running")
    matching: int = field("number of rows that the person chose", 412)
    total: int = field("number of those that it could change when it was counted", 403)
    changed: int = field("number of rows that it has changed", 268)
    refused: int = field("number of rows that it left, because they could no longer be changed", 6)
    left: int = field("number of rows whose turn has not come", 129)
    started_by: str = field("who started it", "mara", source="actor_name")
    counted_at: datetime = field("when the rows were counted")
    starts_at: datetime = field("until when it can be undone")
    started_at: datetime | None = field("when a worker began, or null", AT)
    ended_at: datetime | None = field("when it ended, or null")


class RefusalCount(Shape):
    why: str = field("why rows were left, in a few words", "Already answered")
    count: int = field("number of such rows", 6)


class OperationDetailOut(OperationOut):
    refusals: list[RefusalCount] = field("why rows were left, most frequent first", given=True)
