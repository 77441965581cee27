"""Schemas of a project's policies for decisions about failures."""

from typing import Any

from ninja import Schema
from pydantic import ConfigDict, Field

from ledger.schemas.shared import In
from ledger.states import EvidenceLevel
from retries.models import RetryPolicy
from retries.policies.editing import VALUES
from retries.states import PolicyScope

SCOPES = "off, plans (tasks of plans), or all"
LEVELS = "record, ask (once, at a hook's Stop), or require (proof, or a person's answer)"
POLICIES: dict[str, Any] = {
    "ask_at_once": "plans",
    "obey_waits": "all",
    "ask_on_same_failure": "off",
    "evidence": None,
    "version": 1,
}
WHAT = {
    "ask_at_once": "ask a person at once where credentials, quota or credit are missing",
    "obey_waits": "wait as long as a rate limit says, at most 15 minutes",
    "ask_on_same_failure": "ask a person if an error comes back and no file has changed",
    "evidence": "what is asked for before a task is done, where neither it nor its plan says so",
}


class PoliciesOut(Schema):
    ask_at_once: PolicyScope = Field(description=f"{WHAT['ask_at_once']}: {SCOPES}")
    obey_waits: PolicyScope = Field(description=f"{WHAT['obey_waits']}: {SCOPES}")
    ask_on_same_failure: PolicyScope = Field(description=f"{WHAT['ask_on_same_failure']}: {SCOPES}")
    evidence: EvidenceLevel | None = Field(
        description=f"{WHAT['evidence']}: {LEVELS}; null if it is not set, which records reports "
        "and asks at a hook's Stop"
    )
    version: int = Field(description="the version, for If-Match")

    model_config = ConfigDict(json_schema_extra={"example": POLICIES})


class PoliciesPatch(In):
    ask_at_once: PolicyScope | None = Field(None, description=SCOPES)
    obey_waits: PolicyScope | None = Field(None, description=SCOPES)
    ask_on_same_failure: PolicyScope | None = Field(None, description=SCOPES)
    evidence: EvidenceLevel | None = Field(None, description=LEVELS)
    reason: str = Field("", max_length=2000, description="why, for the journal")

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "ask_on_same_failure": "plans",
                "reason": "it would have saved 214 attempts",
            }
        }
    )


def policies_out(policies: RetryPolicy) -> dict[str, Any]:
    return {name: getattr(policies, name) for name in (*VALUES, "version")}
