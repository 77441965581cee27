"""The shapes of escalations in the API."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.conf import settings
from ninja import Schema
from pydantic import ConfigDict, Field, StrictInt

from ledger.schemas import AGENT_ID, AT, ID, In, Listed, PageQuery
from ledger.states import urgency_of
from retries.escalations import FIX_LENGTH, NOTE_LENGTH, Option, options, resolution
from retries.models import Escalation
from retries.states import EscalationState


class EscalationQuery(PageQuery):
    state: Literal["", "open", "resolved", "expired", "withdrawn"] = ""
    reason: str = ""


class ResolveIn(In):
    action: Literal["retry", "fix", "skip", "abort"] | None = None
    instruction: str = Field("", max_length=FIX_LENGTH, description="the words of a fix")
    note: str = Field("", max_length=NOTE_LENGTH)
    text: str = Field(
        "", max_length=FIX_LENGTH + 10, description="instead: one line, such as 'fix: trim first'"
    )
    version: StrictInt | None = Field(None, description="the version that was read")

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {"action": "fix", "instruction": "Run `openspec --version` and report it"}
        },
    )


OPTION = {
    "name": "fix",
    "title": "Send with other words",
    "description": "coder gets your words first of all, and is chased until it answers.",
    "requires_text": True,
    "confirm": False,
}
ESCALATION: dict[str, Any] = {
    "id": ID,
    "state": "open",
    "reason": "instruction_ignored",
    "severity": "normal",
    "title": "coder has not acknowledged an instruction after 4 deliveries",
    "message": "Check if the OpenSpec CLI is available",
    "task": None,
    "plan": None,
    "instruction": ID,
    "agent": AGENT_ID,
    "agent_name": "coder",
    "raised_by": {"type": "system", "name": "idle_check"},
    "options": [OPTION],
    "opened_at": AT,
    "closed_at": None,
    "url": f"https://heed.example.org/escalations/{ID}/",
    "resolution": None,
    "version": 1,
}


class OptionOut(Schema):
    name: str
    title: str
    description: str
    requires_text: bool
    confirm: bool


class EscalationOut(Schema):
    id: UUID
    state: EscalationState
    reason: str
    severity: str
    title: str
    message: str
    task: UUID | None
    plan: UUID | None
    instruction: UUID | None
    agent: UUID
    agent_name: str
    raised_by: dict[str, str]
    options: list[OptionOut] = Field(description="what can be answered; none once it is closed")
    opened_at: datetime
    closed_at: datetime | None
    url: str
    resolution: dict[str, Any] | None
    version: int

    model_config = ConfigDict(json_schema_extra={"example": ESCALATION})


class EscalationList(Listed):
    data: list[EscalationOut]

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"data": [ESCALATION], "next_cursor": None, "has_more": False}
        }
    )


class ResolveOut(Schema):
    escalation: EscalationOut
    decision: dict[str, Any] = Field(description="what was done")

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "escalation": ESCALATION | {"state": "resolved", "options": [], "version": 2},
                "decision": {"action": "fix", "resent_as": ID},
            }
        }
    )


def title(escalation: Escalation) -> str:
    """One line that says what happened."""
    row = escalation.instruction
    times = row.deliveries if row else 0
    last = f", the last time as {urgency_of(row.retry_count).upper()}" if row else ""
    said = f"after {times} deliveries{last}" if times != 1 else "after one delivery"
    return f"{escalation.agent.name} has not acknowledged an instruction {said}"


def escalation_out(escalation: Escalation) -> dict[str, Any]:
    """The JSON object of an escalation, with its agent and instruction loaded."""
    return {
        "id": escalation.id,
        "state": escalation.state,
        "reason": escalation.reason,
        "severity": escalation.severity,
        "title": title(escalation),
        "message": escalation.instruction.content if escalation.instruction else "",
        "task": None,
        "plan": None,
        "instruction": escalation.instruction_id,
        "agent": escalation.agent_id,
        "agent_name": escalation.agent.name,
        "raised_by": {"type": escalation.raised_by_type, "name": escalation.raised_by_name},
        "options": [option_out(each) for each in options(escalation)] if escalation.is_open else [],
        "opened_at": escalation.opened_at,
        "closed_at": escalation.closed_at,
        "url": f"{settings.HEED_URL}/escalations/{escalation.id}/",
        "resolution": resolution(escalation),
        "version": escalation.version,
    }


def option_out(option: Option) -> dict[str, Any]:
    return {
        "name": option.name,
        "title": option.title,
        "description": option.description,
        "requires_text": option.requires_text,
        "confirm": option.confirm,
    }
