"""Parts that the schemas of several nouns share."""

from functools import cache

from ninja import Schema
from pydantic import ConfigDict, Field, StrictBool, create_model

from ledger.schemas.shapes import Exampled, Shape, field

MOST_ROWS = 100

# Descriptions of fields.
CURSOR = "'next_cursor' from the previous page"
AGENT_NAME = "the agent's name"
AGENT_ID_OR_NAME = "an agent's id or name"
PLAN_ID_OR_REF = "a plan's id or ref, such as 03-01"
SHORT_ID = "an id, its beginning (4 digits or more), or its last 8 digits"
STATES = "one state, or several separated by commas"


class In(Exampled):
    """A request body; it rejects unknown fields, because most of them are typos."""

    model_config = ConfigDict(extra="forbid")


class ReasonIn(In, example={"reason": "no longer needed"}):
    reason: str = Field("", max_length=2000, description="why, for the journal")


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


class Listed(Shape):
    next_cursor: str | None = field("the cursor of the next page; null on the last page")
    has_more: bool = field("true if there is another page")


@cache
def page_of(shape: type[Shape], description: str = "the rows of this page") -> type[Listed]:
    """Return the schema of a page of shapes: AgentList for AgentOut."""
    name = shape.__name__.removesuffix("Out") + "List"
    return create_model(name, __base__=Listed, data=(list[shape], field(description)))  # type: ignore[valid-type]
