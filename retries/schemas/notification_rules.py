"""Schemas of notification rules."""

from datetime import datetime, time
from typing import Any, Literal
from uuid import UUID

from pydantic import Field, StrictBool, StrictInt

from ledger.schemas.shapes import ID, Shape, field
from ledger.schemas.shared import AGENT_NAME, In, Listed
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
    "escalation, breaker, agent_silent, agent_waits, account_limit, budget, plan, dead_letter, "
    "instruction_failed, files_outside, channel_stopped, or a kind of event such as task.completed"
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


class NotificationRuleIn(In, example=RULE_IN):
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


class NotificationRulePatch(In, example={"cap_per_hour": 4}):
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


class NotificationRuleOut(Shape):
    id: UUID = field("the rule's id")
    conditions: list[str] = field(TEXTS["conditions"], ["escalation"])
    channel_id: UUID = field(TEXTS["channel_id"])
    agent: str | None = field(TEXTS["agent"], source="agent.name")
    agent_id: UUID | None = field("the agent's id, or null")
    plan: UUID | None = field("the plan's id; null for every plan", source="plan_id")
    severity: str = field(TEXTS["severity"])
    only_on_change: bool = field(TEXTS["only_on_change"], True)
    cap_per_hour: int | None = field(TEXTS["cap_per_hour"], 10)
    repeat_s: int | None = field(TEXTS["repeat_s"], 1800)
    repeat_until: Until = field(TEXTS["repeat_until"], "answered")
    quiet_from: str | None = field(
        TEXTS["quiet_from"],
        "22:00:00",
        source=lambda row: row.quiet_from and row.quiet_from.isoformat(),
    )
    quiet_until: str | None = field(
        TEXTS["quiet_until"],
        "07:00:00",
        source=lambda row: row.quiet_until and row.quiet_until.isoformat(),
    )
    timezone: str = field(TEXTS["timezone"], "Europe/Berlin")
    severe_breaks_quiet: bool = field(TEXTS["severe_breaks_quiet"], True)
    second_channel_id: UUID | None = field(TEXTS["second_channel_id"], ID)
    second_after_s: int | None = field(TEXTS["second_after_s"], 3600)
    enabled: bool = field(TEXTS["enabled"], True)
    created_by: CreatedBy = field("who created it", source=".")
    created_at: datetime = field("when it was created")
    updated_at: datetime = field("when it was last changed")
    version: int = field("the version, which If-Match names", 1)


class NotificationRuleList(Listed, example={"data": []}):
    data: list[NotificationRuleOut] = field("the rows of this page")
