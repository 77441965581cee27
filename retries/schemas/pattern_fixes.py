"""Schemas of the fixes that were given for the failures of a pattern."""

from datetime import datetime

from pydantic import Field

from ledger.schemas.shapes import Part, Shape, field
from ledger.schemas.shared import In
from retries.failures.fixes.reading import KEY_LENGTH, FixState
from retries.failures.grouping import NOTE_LENGTH
from retries.schemas.diagnoses import SignatureOut
from retries.states import Verdict


class FixVerdictOut(Part):
    verdict: Verdict = field("promoted or retired", "promoted")
    note: str = field("why, for other people")
    at: datetime = field("when the person decided")
    by: str = field("who decided", source="by_name")


class FixOut(Shape):
    key: str = field("equal for fixes that differ only in case or spacing", "5d1c0a9e3b7f6284")
    fix: str = field("what the person wrote", "Add uuid to package.json and run npm ci")
    signature: SignatureOut = field("the failures that it is for", source=".")
    state: FixState = field(
        "promoted by a person; advice: it worked at least three times and at least as "
        "often as plain retries; tried; or retired, by a person or because its last three tries "
        "did not help",
        "advice",
    )
    worked: int = field(
        "how many of the next attempts did not fail like this again", 5, source="counts.worked"
    )
    done: int = field("how many of them succeeded", 4, source="done.worked")
    tried: int = field("how many next attempts there were", 6, source="counts.tried")
    plain_worked: int = field(
        "how many plain retries of the pattern succeeded", 2, source="plain.worked"
    )
    plain_tried: int = field("how many retries of the pattern got no fix", 9, source="plain.tried")
    last_at: datetime = field("when a person gave it last")
    last_by: str = field("who gave it last", "mara")
    verdict: FixVerdictOut | None = field("what a person decided; null for nothing", None)


class FixList(Shape):
    data: list[FixOut] = field("the fixes, the most reliable first")


class JudgeIn(
    In, example={"signature": "2-1f0c9a6d5e7b8a", "key": "5d1c0a9e3b7f6284", "note": "checked"}
):
    signature: str = Field(max_length=KEY_LENGTH, description="the key of the fix's signature")
    key: str = Field(max_length=KEY_LENGTH, description="the fix's key")
    note: str = Field("", max_length=NOTE_LENGTH, description="why, for other people")
