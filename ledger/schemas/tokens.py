"""Schemas of tokens."""

from datetime import datetime
from typing import Any
from uuid import UUID

from ninja import Schema
from pydantic import ConfigDict, Field, StrictInt

from ledger.models import Token
from ledger.models.token import TokenKind
from ledger.schemas.shared import AGENT_ID, AT, ID, In, Listed, Registering

MOST_DAYS = 3650
OVERLAP_HOURS = 24
MOST_OVERLAP_HOURS = 720

TOKEN: dict[str, Any] = {
    "id": ID,
    "kind": "agent",
    "name": "coder",
    "agent": "coder",
    "agent_id": AGENT_ID,
    "prefix": "tenfour_agt_VquT",
    "scopes": ["instructions:ack", "tasks:read", "tasks:work"],
    "created_by": "ci",
    "created_at": AT,
    "expires_at": AT,
    "revoked_at": None,
    "last_used_at": AT,
}
SECRET = "tenfour_agt_VquT…"


class TokenOut(Schema):
    id: UUID = Field(description="the token's id")
    kind: TokenKind = Field(description="agent, orchestrator, operator, or reader")
    name: str = Field(description="the token's name")
    agent: str | None = Field(description="the name of the token's agent; null for other kinds")
    agent_id: UUID | None = Field(description="the id of the token's agent; null for other kinds")
    prefix: str = Field(description="the first characters of its secret")
    scopes: list[str] = Field(description="what the token may do")
    created_by: str = Field(description="who created it")
    created_at: datetime = Field(description="when it was created")
    expires_at: datetime | None = Field(description="when it expires; null for never")
    revoked_at: datetime | None = Field(description="when it was revoked; null if it was not")
    last_used_at: datetime | None = Field(description="when it was last used, to the minute")

    model_config = ConfigDict(json_schema_extra={"example": TOKEN})


class TokenList(Listed):
    data: list[TokenOut] = Field(description="the rows of this page")

    model_config = ConfigDict(
        json_schema_extra={"example": {"data": [TOKEN], "next_cursor": None, "has_more": False}}
    )


class SecretOut(TokenOut):
    secret: str = Field(description="the token itself; it is not stored and not shown again")

    model_config = ConfigDict(json_schema_extra={"example": TOKEN | {"secret": SECRET}})


class TokenIn(Registering):
    kind: TokenKind = Field(description="what the token may do, as a preset of scopes")
    agent: str = Field("", description="the agent's name; required for the kind 'agent' alone")
    name: str = Field("", max_length=64, description="a name for lists; the agent's by default")
    expires_in_days: StrictInt | None = Field(
        None,
        ge=1,
        le=MOST_DAYS,
        description="the token's lifetime; 90 days if missing",
    )

    model_config = ConfigDict(json_schema_extra={"example": {"kind": "agent", "agent": "coder"}})


class RotateIn(In):
    overlap_hours: StrictInt = Field(
        OVERLAP_HOURS,
        ge=0,
        le=MOST_OVERLAP_HOURS,
        description="how long the old token stays valid at most",
    )

    model_config = ConfigDict(json_schema_extra={"example": {"overlap_hours": 24}})


def token_out(token: Token) -> dict[str, Any]:
    """Return the JSON object for a token whose agent is loaded."""
    return {
        "id": token.pk,
        "kind": token.kind,
        "name": token.name,
        "agent": token.agent.name if token.agent else None,
        "agent_id": token.agent_id,
        "prefix": token.prefix,
        "scopes": token.scopes,
        "created_by": token.created_by,
        "created_at": token.created_at,
        "expires_at": token.expires_at,
        "revoked_at": token.revoked_at,
        "last_used_at": token.last_used_at,
    }


def secret_out(token: Token, secret: str) -> dict[str, Any]:
    return token_out(token) | {"secret": secret}
