"""Schemas of notification rules."""

from datetime import datetime, time
from typing import Any, Literal
from uuid import UUID

from ninja import Schema
from pydantic import ConfigDict, Field, StrictBool, StrictInt

from ledger.schemas.shapes import AT, ID
from ledger.schemas.shared import AGENT_NAME, In, Listed
from retries.models import NotificationRule
from retries.notifications.rules.editing import CAP, REPEAT_S, SECOND_AFTER_S
from retries.schemas.channels import CreatedBy

Severity = Literal["", "low", "normal", "high"]
Until = Literal["answered", "taken"]
RULE_IN: dict[str, Any] = {
    "conditions": ["escalation"],
    "channel_id": ID,
    "cap_per_hour": 10,
    "repeat_s": 1800,
    "second_channel_id": ID,
    "second_after_s": 3600,
}
CONDITIONS = (
    "escalation, breaker, agent_silent, agent_waits, plan, dead_letter, instruction_failed, "
    "channel_stopped, or a kind of event such as task.completed"
)
TEXTS = {
    "conditions": f"what to tell: {CONDITIONS}",
    "channel_id": "the channel for people that is told",
    "agent": f"{AGENT_NAME}; null for every agent",
    "plan": "the plan's id or ref; null for every plan",
    "severity": "of an escalation; empty for any",
    "only_on_change": "stay silent while the same condition goes on",
    "cap_per_hour": f"null, or {CAP[0]} to {CAP[1]}; the rest becomes one summary",
    "repeat_s": f"null, or {REPEAT_S[0]} to {REPEAT_S[1]}: repeat until someone reacts",
    "repeat_until": "what ends it: answered, or taken (answered or assigned)",
    "quiet_from": "the start of the rule's quiet hours, or null",
    "quiet_until": "their end, or null",
    "timezone": "of the quiet hours, such as Europe/Berlin",
    "severe_breaks_quiet": "true if escalations of high severity come through",
    "second_channel_id": "the channel that is told if no one reacts, or null",
    "second_after_s": f"null, or {SECOND_AFTER_S[0]} to {SECOND_AFTER_S[1]}",
    "enabled": "false to switch the rule off",
}


class NotificationRuleIn(In):
    conditions: list[str] = Field(description=TEXTS["conditions"])
    channel_id: UUID = Field(description=TEXTS["channel_id"])
    agent: str | None = Field(None, description=TEXTS["agent"])
    plan: str | None = Field(None, description=TEXTS["plan"])
    severity: Severity = Field("", description=TEXTS["severity"])
    only_on_change: StrictBool = Field(True, description=TEXTS["only_on_change"])
    cap_per_hour: StrictInt | None = Field(None, description=TEXTS["cap_per_hour"])
    repeat_s: StrictInt | None = Field(None, description=TEXTS["repeat_s"])
    repeat_until: Until = Field("answered", description=TEXTS["repeat_until"])
    quiet_from: time | None = Field(None, description=TEXTS["quiet_from"])
    quiet_until: time | None = Field(None, description=TEXTS["quiet_until"])
    timezone: str = Field("UTC", description=TEXTS["timezone"])
    severe_breaks_quiet: StrictBool = Field(True, description=TEXTS["severe_breaks_quiet"])
    second_channel_id: UUID | None = Field(None, description=TEXTS["second_channel_id"])
    second_after_s: StrictInt | None = Field(None, description=TEXTS["second_after_s"])
    enabled: StrictBool = Field(True, description=TEXTS["enabled"])

    model_config = ConfigDict(json_schema_extra={"example": RULE_IN})


class NotificationRulePatch(In):
    conditions: list[str] | None = Field(None, description=TEXTS["conditions"])
    channel_id: UUID | None = Field(None, description=TEXTS["channel_id"])
    agent: str | None = Field(None, description=TEXTS["agent"])
    plan: str | None = Field(None, description=TEXTS["plan"])
    severity: Severity | None = Field(None, description=TEXTS["severity"])
    only_on_change: StrictBool | None = Field(None, description=TEXTS["only_on_change"])
    cap_per_hour: StrictInt | None = Field(None, description=TEXTS["cap_per_hour"])
    repeat_s: StrictInt | None = Field(None, description=TEXTS["repeat_s"])
    repeat_until: Until | None = Field(None, description=TEXTS["repeat_until"])
    quiet_from: time | None = Field(None, description=TEXTS["quiet_from"])
    quiet_until: time | None = Field(None, description=TEXTS["quiet_until"])
    timezone: str | None = Field(None, description=TEXTS["timezone"])
    severe_breaks_quiet: StrictBool | None = Field(None, description=TEXTS["severe_breaks_quiet"])
    second_channel_id: UUID | None = Field(None, description=TEXTS["second_channel_id"])
    second_after_s: StrictInt | None = Field(None, description=TEXTS["second_after_s"])
    enabled: StrictBool | None = Field(None, description=TEXTS["enabled"])

    model_config = ConfigDict(json_schema_extra={"example": {"cap_per_hour": 4}})


class NotificationRuleOut(Schema):
    id: UUID = Field(description="the rule's id")
    conditions: list[str] = Field(description=TEXTS["conditions"])
    channel_id: UUID = Field(description=TEXTS["channel_id"])
    agent: str | None = Field(description=TEXTS["agent"])
    agent_id: UUID | None = Field(description="the agent's id, or null")
    plan: UUID | None = Field(description="the plan's id; null for every plan")
    severity: str = Field(description=TEXTS["severity"])
    only_on_change: bool = Field(description=TEXTS["only_on_change"])
    cap_per_hour: int | None = Field(description=TEXTS["cap_per_hour"])
    repeat_s: int | None = Field(description=TEXTS["repeat_s"])
    repeat_until: Until = Field(description=TEXTS["repeat_until"])
    quiet_from: str | None = Field(description=TEXTS["quiet_from"])
    quiet_until: str | None = Field(description=TEXTS["quiet_until"])
    timezone: str = Field(description=TEXTS["timezone"])
    severe_breaks_quiet: bool = Field(description=TEXTS["severe_breaks_quiet"])
    second_channel_id: UUID | None = Field(description=TEXTS["second_channel_id"])
    second_after_s: int | None = Field(description=TEXTS["second_after_s"])
    enabled: bool = Field(description=TEXTS["enabled"])
    created_by: CreatedBy = Field(description="who created it")
    created_at: datetime = Field(description="when it was created")
    updated_at: datetime = Field(description="when it was last changed")
    version: int = Field(description="the version, which If-Match names")

    model_config = ConfigDict(
        json_schema_extra={
            "example": RULE_IN
            | {
                "id": ID,
                "agent": None,
                "agent_id": None,
                "plan": None,
                "severity": "",
                "only_on_change": True,
                "repeat_until": "answered",
                "quiet_from": "22:00:00",
                "quiet_until": "07:00:00",
                "timezone": "Europe/Berlin",
                "severe_breaks_quiet": True,
                "enabled": True,
                "created_by": {"type": "token", "name": "ops"},
                "created_at": AT,
                "updated_at": AT,
                "version": 1,
            }
        }
    )


class NotificationRuleList(Listed):
    data: list[NotificationRuleOut] = Field(description="the rows of this page")

    model_config = ConfigDict(
        json_schema_extra={"example": {"data": [], "next_cursor": None, "has_more": False}}
    )


SAME = (
    "severity",
    "only_on_change",
    "cap_per_hour",
    "repeat_s",
    "repeat_until",
    "timezone",
    "severe_breaks_quiet",
    "second_after_s",
    "enabled",
    "created_at",
    "updated_at",
    "version",
)


def rule_out(rule: NotificationRule) -> dict[str, Any]:
    """Return the JSON object for a rule whose agent is loaded."""
    return {name: getattr(rule, name) for name in SAME} | {
        "id": rule.pk,
        "conditions": rule.conditions,
        "channel_id": rule.channel_id,
        "agent": rule.agent.name if rule.agent else None,
        "agent_id": rule.agent_id,
        "plan": rule.plan_id,
        "quiet_from": rule.quiet_from.isoformat() if rule.quiet_from else None,
        "quiet_until": rule.quiet_until.isoformat() if rule.quiet_until else None,
        "second_channel_id": rule.second_channel_id,
        "created_by": {"type": rule.created_by_type, "name": rule.created_by_name},
    }
