"""The shapes of who asks, of the journal, of statistics and of problems."""

from datetime import datetime
from typing import Any
from uuid import UUID

from ninja import Schema
from pydantic import ConfigDict, Field

from ledger.schemas.shared import AGENT_ID, AT, ID, Listed
from ledger.sql import Row
from ledger.states import Urgency


class StatsQuery(Schema):
    window: str = Field("24h", description="such as 30m, 24h or 7d")


class EventQuery(Schema):
    after: str = Field("", description="the 'next_cursor' of the page before")
    limit: int = Field(50, ge=1, le=100)


class Named(Schema):
    id: UUID
    name: str


class TokenOut(Schema):
    id: UUID
    prefix: str
    expires_at: datetime | None


class Limits(Schema):
    content_bytes: int
    body_bytes: int
    page: int


class MeOut(Schema):
    kind: str
    name: str
    project: Named
    agent: Named | None
    scopes: list[str]
    token: TokenOut
    limits: Limits
    poll_every_s: int
    server_time: datetime
    version: str

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "kind": "agent",
                "name": "coder",
                "project": {"id": ID, "name": "default"},
                "agent": {"id": AGENT_ID, "name": "coder"},
                "scopes": ["instructions:ack", "instructions:read", "signals:write"],
                "token": {"id": ID, "prefix": "tenfour_agt_VquT", "expires_at": AT},
                "limits": {"content_bytes": 8192, "body_bytes": 262144, "page": 100},
                "poll_every_s": 2,
                "server_time": AT,
                "version": "0.1.0",
            }
        }
    )


class EventOut(Schema):
    id: UUID
    type: str
    at: datetime
    project: UUID
    subject_type: str
    subject: UUID
    agent: UUID | None
    from_state: str | None
    to_state: str | None
    actor: dict[str, str]
    data: dict[str, Any]
    request_id: str


class EventList(Listed):
    data: list[EventOut]

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
                        "agent": AGENT_ID,
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


class LevelOut(Schema):
    urgency: Urgency
    acknowledged: int = Field(description="acknowledged at this level")
    waiting: int
    ack_p50_s: float | None
    ack_p95_s: float | None


class StatisticsOut(Schema):
    name: str
    sent: int
    acknowledged: int
    failed: int
    cancelled: int
    waiting: int
    retries: int
    retry_rate: float = Field(description="retries per instruction sent")
    retried_share: float = Field(description="the share that needed a retry")
    failed_share: float = Field(description="the share given up")
    ack_p50_s: float | None = Field(description="from the sending to the ack, half within")
    ack_p95_s: float | None
    levels: list[LevelOut] = Field(description="first, again, important, urgent")


class StatsOut(Schema):
    window_s: int
    project: StatisticsOut
    agents: list[StatisticsOut]

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "window_s": 86400,
                "project": {
                    "name": "default",
                    "sent": 12,
                    "acknowledged": 9,
                    "failed": 2,
                    "cancelled": 0,
                    "waiting": 1,
                    "retries": 14,
                    "retry_rate": 1.1667,
                    "retried_share": 0.5,
                    "failed_share": 0.1667,
                    "ack_p50_s": 2.1,
                    "ack_p95_s": 118.4,
                    "levels": [
                        {
                            "urgency": "first",
                            "acknowledged": 6,
                            "waiting": 1,
                            "ack_p50_s": 1.2,
                            "ack_p95_s": 2.4,
                        }
                    ],
                },
                "agents": [],
            }
        }
    )


class ProblemOut(Schema):
    """RFC 9457, with Tenfour's extension members."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    retryable: bool
    hint: str
    request_id: str

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "example": {
                "type": "https://tenfour.example.org/problems/unknown_agent",
                "title": "Unknown agent",
                "status": 422,
                "detail": "No agent is called 'codr' in project 'default'. Nearest: coder.",
                "instance": "/v1/instructions",
                "code": "unknown_agent",
                "retryable": False,
                "hint": "Use one of the nearest names, or send 'register': true.",
                "request_id": "2f1c0b0f5b8f4b0fa0d7c9d1f2e3a4b5",
                "nearest": ["coder"],
            }
        },
    )


def event_out(row: Row) -> dict[str, Any]:
    """The JSON object of a line of the journal."""
    return {
        "id": row["id"],
        "type": row["kind"],
        "at": row["at"],
        "project": row["project_id"],
        "subject_type": row["subject_type"],
        "subject": row["subject_id"],
        "agent": row["agent_id"],
        "from_state": row["from_state"],
        "to_state": row["to_state"],
        "actor": {"type": row["actor_type"], "id": row["actor_id"], "name": row["actor_name"]},
        "data": row["data"],
        "request_id": row["request_id"],
    }
