"""Parts that the schemas of several nouns share."""

from ninja import Schema
from pydantic import BaseModel, ConfigDict, Field, StrictBool

ID = "01a1fe6d-9b01-7830-98b6-0164ecc5924c"

AGENT_ID = "01a1fe6d-9af5-7be0-83ca-c63e43309669"

AT = "2026-11-21T14:05:58.436Z"

MOST_ROWS = 100

# Descriptions of fields.
CURSOR = "'next_cursor' from the previous page"
AGENT_NAME = "the agent's name"
AGENT_ID_OR_NAME = "an agent's id or name"
PLAN_ID_OR_REF = "a plan's id or ref, such as 03-01"
SHORT_ID = "an id, its beginning (4 digits or more), or its last 8 digits"
STATES = "one state, or several separated by commas"


class In(BaseModel):
    """A request body; it rejects unknown fields, because most of them are typos."""

    model_config = ConfigDict(extra="forbid")


class Registering(In):
    """A request body that may name an unregistered agent."""

    register_: StrictBool = Field(
        False, alias="register", description="register the agent if it is unknown"
    )


class PageQuery(Schema):
    limit: int = Field(50, ge=1, le=MOST_ROWS, description="maximum number of rows")
    cursor: str = Field("", description=CURSOR)


class ListQuery(PageQuery):
    id: str = Field("", max_length=36, description=SHORT_ID)


class Listed(Schema):
    next_cursor: str | None = Field(
        description="the cursor of the next page; null on the last page"
    )
    has_more: bool = Field(description="true if there is another page")
