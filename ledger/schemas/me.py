"""Schemas of the caller itself."""

from datetime import datetime
from uuid import UUID

from ninja import Schema
from pydantic import ConfigDict, Field

from ledger.schemas.shapes import AGENT_ID, AT, ID


class NamedOut(Schema):
    id: UUID = Field(description="its id")
    name: str = Field(description="its name")


class OwnTokenOut(Schema):
    id: UUID = Field(description="the token's id")
    prefix: str = Field(description="the first characters of its secret")
    expires_at: datetime | None = Field(description="when it expires; null for never")


class LimitsOut(Schema):
    content_bytes: int = Field(description="maximum bytes of an instruction")
    body_bytes: int = Field(description="maximum bytes of a JSON body")
    page: int = Field(description="maximum rows of a page")


class MeOut(Schema):
    kind: str = Field(description="agent, orchestrator, operator, or reader")
    name: str = Field(description="the token's name")
    project: NamedOut = Field(description="the token's project")
    agent: str | None = Field(description="the name of the token's agent; null for other tokens")
    agent_id: UUID | None = Field(description="the id of the token's agent; null for other tokens")
    scopes: list[str] = Field(description="what the token may do")
    token: OwnTokenOut = Field(description="the token itself, without its secret")
    limits: LimitsOut = Field(description="the server's limits")
    poll_every_s: int = Field(
        description="how often to ask for work when there is none, in seconds"
    )
    server_time: datetime = Field(description="the server's clock")
    version: str = Field(description="the server's version")

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
