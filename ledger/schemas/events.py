"""Schemas of the journal's events."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import AwareDatetime, Field

from ledger.database.sql import Row
from ledger.models import Agent
from ledger.schemas.shapes import AGENT_ID, Part, field
from ledger.schemas.shared import AGENT_ID_OR_NAME, Listed, ListQuery


class EventQuery(ListQuery):
    after: str | None = Field(
        None,
        description="read as a stream, oldest first, from this 'next_cursor' on; empty to begin "
        "with the first event, 'latest' with the next one",
    )
    kind: str = Field("", description="one event type, or several separated by commas")
    subject: UUID | None = Field(None, description="the id of a task, plan, or other subject")
    agent: str = Field("", description=AGENT_ID_OR_NAME)
    since: AwareDatetime | None = Field(None, description="only events at or after this time")
    until: AwareDatetime | None = Field(None, description="only events before this time")


class EventOut(Part, keyed=True):
    id: UUID = field("the event's id")
    type: str = field(
        "what happened, such as task.completed", "instruction.requeued", source="kind"
    )
    at: datetime = field("when it happened")
    project: UUID = field("the project's id", source="project_id")
    subject_type: str = field("what it is about, such as task or instruction", "instruction")
    subject: UUID = field("the id of what it is about", source="subject_id")
    agent: str | None = field("the agent's name; null if none is concerned", "coder", given=True)
    agent_id: UUID | None = field("the agent's id; null if none is concerned", AGENT_ID)
    from_state: str | None = field("the state before a move; else null", "delivered")
    to_state: str | None = field("the state after a move; else null", "queued")
    actor: dict[str, str] = field(
        "who did it: type, id, and name",
        {"type": "system", "id": "idle_check", "name": "idle_check"},
        source=lambda row: {
            "type": row["actor_type"],
            "id": row["actor_id"],
            "name": row["actor_name"],
        },
    )
    data: dict[str, Any] = field("details, which depend on the type", {"retry_count": 1})
    request_id: str = field("the X-Request-Id of the call that caused it")


class EventList(Listed, example={"next_cursor": "ODE1LjAxYTFmZTZk", "has_more": True}):
    data: list[EventOut] = field("the rows of this page")


def events_out(rows: Sequence[Row]) -> list[dict[str, Any]]:
    ids = {row["agent_id"] for row in rows}
    names = dict(Agent.objects.filter(pk__in=ids).values_list("pk", "name"))
    return [EventOut.write(row, agent=names.get(row["agent_id"])) for row in rows]
