"""Schemas of markers."""

from datetime import datetime
from uuid import UUID

from pydantic import AwareDatetime, Field

from ledger.markers import DEPLOY, KIND_LENGTH, LINK_LENGTH, NAME_LENGTH, TEXT_LENGTH
from ledger.schemas.shapes import Part, Shape, field
from ledger.schemas.shared import In, ListQuery

LINK = "https://ci.example.com/runs/1734"


class MarkerQuery(ListQuery):
    kind: str = Field("", max_length=KIND_LENGTH, description="the kind, such as deploy")
    since: AwareDatetime | None = Field(None, description="markers from this time on")
    until: AwareDatetime | None = Field(None, description="markers before this time")


class MarkerIn(In, example={"name": "deploy 2024.11", "link": LINK}):
    name: str = Field(max_length=NAME_LENGTH, description="what happened, for people")
    kind: str = Field(DEPLOY, max_length=KIND_LENGTH, description="such as deploy or change")
    at: AwareDatetime | None = Field(None, description="when it happened; null for now")
    link: str = Field(
        "", max_length=LINK_LENGTH, description="the http or https address of a page about it"
    )
    text: str = Field("", max_length=TEXT_LENGTH, description="more about it, for people")


class MarkerOut(Shape):
    id: UUID = field("the marker's id", source="pk")
    name: str = field("what happened", "deploy 2024.11")
    kind: str = field("such as deploy or change", DEPLOY)
    at: datetime = field("when it happened")
    link: str = field("the address of a page about it; empty without one", LINK)
    text: str = field("more about it")
    created_by: str = field("who set it", "ci")
    created_at: datetime = field("when it was set")


class MarkerBeforeOut(Part):
    marker: MarkerOut = field("the marker")
    seconds: int = field("the seconds from the marker on", 240)
