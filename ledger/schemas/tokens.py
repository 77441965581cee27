"""Schemas of tokens."""

from datetime import datetime
from uuid import UUID

from pydantic import Field, StrictInt

from ledger.models.agent import ACCOUNT_LENGTH
from ledger.models.token import TokenKind
from ledger.schemas.shapes import AGENT_ID, AT, Part, Shape, field
from ledger.schemas.shared import In, Registering

MOST_DAYS = 3650
OVERLAP_HOURS = 24
MOST_OVERLAP_HOURS = 720


class TokenOut(Shape):
    id: UUID = field("the token's id", source="pk")
    kind: TokenKind = field("agent, orchestrator, operator, or reader", "agent")
    name: str = field("the token's name", "coder")
    agent: str | None = field(
        "the name of the token's agent; null for other kinds", "coder", source="agent.name"
    )
    agent_id: UUID | None = field("the id of the token's agent; null for other kinds", AGENT_ID)
    account: str = field(
        "the account that its calls are billed to; empty for the agent's", "team-a"
    )
    prefix: str = field("the first characters of its secret", "tenfour_agt_VquT")
    scopes: list[str] = field(
        "what the token may do", ["instructions:ack", "tasks:read", "tasks:work"]
    )
    created_by: str = field("who created it", "ci")
    created_at: datetime = field("when it was created")
    expires_at: datetime | None = field("when it expires; null for never", AT)
    revoked_at: datetime | None = field("when it was revoked; null if it was not")
    last_used_at: datetime | None = field("when it was last used, to the minute", AT)


class SecretOut(TokenOut):
    secret: str = field(
        "the token itself; it is not stored and not shown again", "tenfour_agt_VquT…", given=True
    )


class TokenIn(Registering, example={"kind": "agent", "agent": "coder"}):
    kind: TokenKind = Field(description="what the token may do, as a preset of scopes")
    agent: str = Field("", description="the agent's name; required for the kind 'agent' alone")
    name: str = Field("", max_length=64, description="a name for lists; the agent's by default")
    account: str = Field(
        "",
        max_length=ACCOUNT_LENGTH,
        description="the account that the agent's calls with it are billed to; an agent without an "
        "account of its own gets this one",
    )
    scopes: list[str] | None = Field(
        None,
        max_length=30,
        description="some of the kind's scopes, such as tasks:read; all of them if missing",
    )
    expires_in_days: StrictInt | None = Field(
        None, ge=1, le=MOST_DAYS, description="the token's lifetime; 90 days if missing"
    )


class RotateIn(In, example={"overlap_hours": 24}):
    overlap_hours: StrictInt = Field(
        OVERLAP_HOURS,
        ge=0,
        le=MOST_OVERLAP_HOURS,
        description="how long the old token stays valid at most",
    )


# ---- the caller itself


class NamedOut(Part):
    id: UUID = field("its id")
    name: str = field("its name", "default")


class OwnTokenOut(Part):
    id: UUID = field("the token's id")
    prefix: str = field("the first characters of its secret", "tenfour_agt_VquT")
    expires_at: datetime | None = field("when it expires; null for never", AT)


class LimitsOut(Part):
    content_bytes: int = field("maximum bytes of an instruction", 8192)
    body_bytes: int = field("maximum bytes of a JSON body", 262144)
    page: int = field("maximum rows of a page", 100)


class MeOut(Shape):
    kind: str = field("agent, orchestrator, operator, or reader", "agent")
    name: str = field("the token's name", "coder")
    project: NamedOut = field("the token's project")
    agent: str | None = field("the name of the token's agent; null for other tokens", "coder")
    agent_id: UUID | None = field("the id of the token's agent; null for other tokens", AGENT_ID)
    scopes: list[str] = field(
        "what the token may do", ["instructions:ack", "instructions:read", "signals:write"]
    )
    token: OwnTokenOut = field("the token itself, without its secret")
    limits: LimitsOut = field("the server's limits")
    poll_every_s: int = field(
        "seconds between two requests for work after the agent has worked; each empty response "
        "says how long to wait then",
        2,
    )
    poll_max_s: int = field("the longest that such a wait grows while the agent has no work", 30)
    server_time: datetime = field("the server's clock")
    version: str = field("the server's version", "0.1.0")
