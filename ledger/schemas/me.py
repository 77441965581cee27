"""Schemas of the caller itself."""

from datetime import datetime
from uuid import UUID

from ledger.schemas.shapes import AGENT_ID, AT, Part, Shape, field


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
