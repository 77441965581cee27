"""What the shapes of several nouns are made of."""

from ninja import Schema
from pydantic import BaseModel, ConfigDict, Field, StrictBool

ID = "01a1fe6d-9b01-7830-98b6-0164ecc5924c"

AGENT_ID = "01a1fe6d-9af5-7be0-83ca-c63e43309669"

AT = "2026-11-21T14:05:58.436Z"


class In(BaseModel):
    """A body: a field that Tenfour does not know is a mistake worth telling."""

    model_config = ConfigDict(extra="forbid")


class Registering(In):
    """A body that may name an agent of which nothing is known yet."""

    register_: StrictBool = Field(
        False, alias="register", description="make the agent known if it is not"
    )


class PageQuery(Schema):
    limit: int = Field(50, ge=1, le=100)
    cursor: str = Field("", description="the 'next_cursor' of the page before")


class Listed(Schema):
    next_cursor: str | None
    has_more: bool
