"""Schemas of what people do by hand: trip a breaker, abort a task, restart a plan."""

from pydantic import AwareDatetime, ConfigDict, Field

from ledger.schemas.shared import In
from retries.breaker_actions import REASON_LENGTH


class TripIn(In):
    reason: str = Field(
        "",
        max_length=REASON_LENGTH,
        description="why, for the people who look at the breaker later",
    )

    model_config = ConfigDict(json_schema_extra={"example": {"reason": "it deletes its own tests"}})


class KeepOpenIn(In):
    reason: str = Field("", max_length=REASON_LENGTH, description="why, for the journal")

    model_config = ConfigDict(json_schema_extra={"example": {"reason": "its key was revoked"}})


class AbortIn(In):
    reason: str = Field("", max_length=2000, description="why, for the journal")

    model_config = ConfigDict(json_schema_extra={"example": {"reason": "no longer needed"}})


class RestartIn(In):
    carry_over: AwareDatetime | None = Field(
        None, description="tasks that started at or after this time keep their attempts"
    )

    model_config = ConfigDict(json_schema_extra={"example": {"carry_over": "2026-11-21T12:00:00Z"}})
