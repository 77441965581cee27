"""Schemas of the caller itself."""

from datetime import datetime
from uuid import UUID

from ninja import Schema
from pydantic import ConfigDict, Field

from ledger.schemas.shared import AGENT_ID, AT, ID


class NamedOut(Schema):
    id: UUID
    name: str


class TokenOut(Schema):
    id: UUID
    prefix: str
    expires_at: datetime | None


class LimitsOut(Schema):
    content_bytes: int
    body_bytes: int
    page: int


class MeOut(Schema):
    kind: str
    name: str
    project: NamedOut
    agent: str | None = Field(description="the name of the token's agent; null for other tokens")
    agent_id: UUID | None
    scopes: list[str]
    token: TokenOut
    limits: LimitsOut
    poll_every_s: int
    server_time: datetime
    version: str

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "kind": "agent",
                "name": "coder",
                "project": {"id": ID, "name": "default"},
                "agent": "coder",
                "agent_id": AGENT_ID,
                "scopes": ["instructions:ack", "instructions:read", "signals:write"],
                "token": {"id": ID, "prefix": "tenfour_agt_VquT", "expires_at": AT},
                "limits": {"content_bytes": 8192, "body_bytes": 262144, "page": 100},
                "poll_every_s": 2,
                "server_time": AT,
                "version": "0.1.0",
            }
        }
    )
