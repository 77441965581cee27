"""Schemas of the journal's events."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from ninja import Schema
from pydantic import AwareDatetime, ConfigDict, Field

from ledger.models import Agent
from ledger.schemas.shapes import AGENT_ID, AT, ID
from ledger.schemas.shared import AGENT_ID_OR_NAME, Listed, ListQuery
from ledger.sql import Row


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


class EventOut(Schema):
    id: UUID = Field(description="the event's id")
    type: str = Field(description="what happened, such as task.completed")
    at: datetime = Field(description="when it happened")
    project: UUID = Field(description="the project's id")
    subject_type: str = Field(description="what it is about, such as task or instruction")
    subject: UUID = Field(description="the id of what it is about")
    agent: str | None = Field(description="the agent's name; null if none is concerned")
    agent_id: UUID | None = Field(description="the agent's id; null if none is concerned")
    from_state: str | None = Field(description="the state before a move; else null")
    to_state: str | None = Field(description="the state after a move; else null")
    actor: dict[str, str] = Field(description="who did it: type, id, and name")
    data: dict[str, Any] = Field(description="details, which depend on the type")
    request_id: str = Field(description="the X-Request-Id of the call that caused it")


class EventList(Listed):
    data: list[EventOut] = Field(description="the rows of this page")

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "data": [
                    {
                        "id": ID,
                        "type": "instruction.requeued",
                        "at": AT,
                        "project": ID,
                        "subject_type": "instruction",
                        "subject": ID,
                        "agent": "coder",
                        "agent_id": AGENT_ID,
                        "from_state": "delivered",
                        "to_state": "queued",
                        "actor": {"type": "system", "id": "idle_check", "name": "idle_check"},
                        "data": {"retry_count": 1},
                        "request_id": "",
                    }
                ],
                "next_cursor": "ODE1LjAxYTFmZTZk",
                "has_more": True,
            }
        }
    )


def events_out(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the JSON objects for the rows of events, with the names of their agents."""
    ids = {row["agent_id"] for row in rows}
    names = dict(Agent.objects.filter(pk__in=ids).values_list("pk", "name"))
    return [event_out(row, names.get(row["agent_id"])) for row in rows]


def event_out(row: Row, agent: str | None) -> dict[str, Any]:
    return {
        "id": row["id"],
        "type": row["kind"],
        "at": row["at"],
        "project": row["project_id"],
        "subject_type": row["subject_type"],
        "subject": row["subject_id"],
        "agent": agent,
        "agent_id": row["agent_id"],
        "from_state": row["from_state"],
        "to_state": row["to_state"],
        "actor": {"type": row["actor_type"], "id": row["actor_id"], "name": row["actor_name"]},
        "data": row["data"],
        "request_id": row["request_id"],
    }
