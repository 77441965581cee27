"""Schemas of the fixes that were given for the failures of a pattern."""

from datetime import datetime
from typing import Any

from ninja import Schema
from pydantic import ConfigDict, Field

from ledger.schemas.shapes import AT
from ledger.schemas.shared import In
from retries.failures.fixes.reading import KEY_LENGTH, FixState, LearnedFix
from retries.failures.grouping import NOTE_LENGTH
from retries.schemas.diagnoses import SignatureOut
from retries.states import Verdict

FIX: dict[str, Any] = {
    "key": "5d1c0a9e3b7f6284",
    "fix": "Add uuid to package.json and run npm ci",
    "signature": {"key": "2-1f0c9a6d5e7b8a", "entities": ["uuid"]},
    "state": "advice",
    "worked": 5,
    "done": 4,
    "tried": 6,
    "plain_worked": 2,
    "plain_tried": 9,
    "last_at": AT,
    "last_by": "mara",
    "verdict": None,
}


class FixVerdictOut(Schema):
    verdict: Verdict = Field(description="promoted or retired")
    note: str = Field(description="why, for other people")
    at: datetime = Field(description="when the person decided")
    by: str = Field(description="who decided")


class FixOut(Schema):
    key: str = Field(description="equal for fixes that differ only in case or spacing")
    fix: str = Field(description="what the person wrote")
    signature: SignatureOut = Field(description="the failures that it is for")
    state: FixState = Field(
        description="promoted by a person; advice: it worked at least three times and at least as "
        "often as plain retries; tried; or retired, by a person or because its last three tries "
        "did not help"
    )
    worked: int = Field(description="how many of the next attempts did not fail like this again")
    done: int = Field(description="how many of them succeeded")
    tried: int = Field(description="how many next attempts there were")
    plain_worked: int = Field(description="how many plain retries of the pattern succeeded")
    plain_tried: int = Field(description="how many retries of the pattern got no fix")
    last_at: datetime = Field(description="when a person gave it last")
    last_by: str = Field(description="who gave it last")
    verdict: FixVerdictOut | None = Field(description="what a person decided; null for nothing")

    model_config = ConfigDict(json_schema_extra={"example": FIX})


class FixList(Schema):
    data: list[FixOut] = Field(description="the fixes, the most reliable first")

    model_config = ConfigDict(json_schema_extra={"example": {"data": [FIX]}})


class JudgeIn(In):
    signature: str = Field(max_length=KEY_LENGTH, description="the key of the fix's signature")
    key: str = Field(max_length=KEY_LENGTH, description="the fix's key")
    note: str = Field("", max_length=NOTE_LENGTH, description="why, for other people")

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"signature": FIX["signature"]["key"], "key": FIX["key"], "note": "checked"}
        }
    )


def fix_out(fix: LearnedFix) -> dict[str, Any]:
    """Return the JSON object for a learned fix."""
    verdict = fix.verdict
    return {
        "key": fix.key,
        "fix": fix.fix,
        "signature": {"key": fix.signature, "entities": fix.entities},
        "state": fix.state,
        "worked": fix.counts.worked,
        "done": fix.done.worked,
        "tried": fix.counts.tried,
        "plain_worked": fix.plain.worked,
        "plain_tried": fix.plain.tried,
        "last_at": fix.last_at,
        "last_by": fix.last_by,
        "verdict": {
            "verdict": verdict.verdict,
            "note": verdict.note,
            "at": verdict.at,
            "by": verdict.by_name,
        }
        if verdict
        else None,
    }
