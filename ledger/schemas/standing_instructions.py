"""Schemas of standing instructions."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from ninja import Schema
from pydantic import ConfigDict, Field, StrictBool, StrictInt

from ledger.instructions import EXPECT_TYPE_LENGTH, MATCH_SCALARS, MAX_RETRIES
from ledger.models import StandingInstruction
from ledger.models.standing_instruction import INTERVAL_S, RuleState
from ledger.schemas.instructions import ExpectIn
from ledger.schemas.shapes import AGENT_ID, AT, ID
from ledger.schemas.shared import AGENT_ID_OR_NAME, PLAN_ID_OR_REF, STATES, In, Listed, ListQuery
from ledger.standing_instructions.firing import SESSION_LENGTH
from ledger.standing_instructions.trial import Trial

Event = Literal["signal", "session_start", "task_claimed", "every"]
Per = Literal["trigger", "session", "attempt", "day"]

ON: dict[str, Any] = {
    "event": "signal",
    "type": "fs_write",
    "match": {"path": {"glob": "src/**"}},
}
RULE_IN: dict[str, Any] = {
    "on": ON,
    "content": "Run the tests after changing code.",
    "expect": {"type": "fs_command", "match": {"line": "make test"}},
    "once_per": "attempt",
    "hold_stop": True,
}


class RuleQuery(ListQuery):
    state: str = Field("", description=STATES)
    agent: str = Field("", description=AGENT_ID_OR_NAME)


class OnIn(In):
    event: Event = Field(description="what the rule waits for")
    type: str | None = Field(
        None,
        min_length=1,
        max_length=EXPECT_TYPE_LENGTH,
        description="the signal's type, which 'signal' needs, or the task's type for "
        "'task_claimed'; null takes tasks of any type",
    )
    match: dict[str, Any] = Field(
        default_factory=dict,
        max_length=MATCH_SCALARS,
        description="values that the signal's data must contain; 'path' may be "
        '{"glob": "src/**"}',
    )
    plan: str | None = Field(None, description=f"for 'task_claimed': {PLAN_ID_OR_REF}")
    interval_s: StrictInt | None = Field(
        None, description=f"for 'every': {INTERVAL_S[0]} to {INTERVAL_S[1]} seconds"
    )

    model_config = ConfigDict(json_schema_extra={"example": ON})


class RuleIn(In):
    on: OnIn = Field(description="when the rule sends its instruction")
    content: str = Field(
        description="what the agent is told; it can be told several times, so following it twice "
        "must be safe"
    )
    expect: ExpectIn | None = Field(
        None, description="a signal that acknowledges it; null for an acknowledgment"
    )
    max_retries: StrictInt | None = Field(
        None, ge=0, le=MAX_RETRIES, description="reminders after the first delivery"
    )
    on_failed: Literal["record", "escalate"] = Field(
        "escalate", description="what happens when it is ignored: ask a person, or only record it"
    )
    agent: str | None = Field(None, description="the agent's name; null for every agent")
    once_per: Per = Field(
        "trigger", description="how often one agent is told, at most; 'every' takes 'trigger' only"
    )
    hold_stop: StrictBool = Field(
        False, description="true if the agent must not stop while the instruction is open"
    )
    paused: StrictBool = Field(False, description="true to save it as a draft")

    model_config = ConfigDict(json_schema_extra={"example": RULE_IN})


class RulePatch(In):
    on: OnIn | None = Field(None, description="when the rule sends its instruction")
    content: str | None = Field(None, description="what the agent is told")
    expect: ExpectIn | None = Field(
        None, description="a signal that acknowledges it; null for an acknowledgment"
    )
    max_retries: StrictInt | None = Field(
        None, ge=0, le=MAX_RETRIES, description="reminders after the first delivery"
    )
    on_failed: Literal["record", "escalate"] | None = Field(
        None, description="what happens when it is ignored: ask a person, or only record it"
    )
    agent: str | None = Field(None, description="the agent's name; null for every agent")
    once_per: Per | None = Field(None, description="how often one agent is told, at most")
    hold_stop: StrictBool | None = Field(
        None, description="true if the agent must not stop while the instruction is open"
    )

    model_config = ConfigDict(json_schema_extra={"example": {"hold_stop": True}})


RULE: dict[str, Any] = RULE_IN | {
    "id": ID,
    "state": "active",
    "on": ON | {"plan": None, "interval_s": None},
    "max_retries": 3,
    "on_failed": "escalate",
    "agent": None,
    "agent_id": None,
    "created_by": {"type": "token", "name": "producer"},
    "activated_at": AT,
    "retired_at": None,
    "created_at": AT,
    "updated_at": AT,
    "version": 1,
}


class OnOut(Schema):
    event: Event = Field(description="what the rule waits for")
    type: str | None = Field(description="the signal's or the task's type, or null")
    match: dict[str, Any] = Field(description="values that the signal's data must contain")
    plan: UUID | None = Field(description="the plan whose tasks it is for, or null")
    interval_s: int | None = Field(description="seconds between two instructions, or null")


class RuleOut(Schema):
    id: UUID = Field(description="the rule's id")
    state: RuleState = Field(description="active, paused, draft, or retired")
    on: OnOut = Field(description="when the rule sends its instruction")
    content: str = Field(description="what the agent is told")
    expect: dict[str, Any] | None = Field(description="the signal that acknowledges it, or null")
    max_retries: int = Field(description="reminders after the first delivery")
    on_failed: str = Field(description="what happens when it is ignored: record or escalate")
    agent: str | None = Field(description="the agent's name; null for every agent")
    agent_id: UUID | None = Field(description="the agent's id; null for every agent")
    once_per: Per = Field(description="how often one agent is told, at most")
    hold_stop: bool = Field(
        description="true if the agent must not stop while the instruction is open"
    )
    created_by: dict[str, str] = Field(description="who created it: type and name")
    activated_at: datetime | None = Field(description="when it was last switched on, or null")
    retired_at: datetime | None = Field(description="when it was retired, or null")
    created_at: datetime = Field(description="when it was created")
    updated_at: datetime = Field(description="when it was last changed")
    version: int = Field(description="the version, for If-Match")

    model_config = ConfigDict(json_schema_extra={"example": RULE})


def rule_out(row: StandingInstruction) -> dict[str, Any]:
    """Return the JSON object for a rule."""
    expects = row.expect_type
    return {
        "id": row.id,
        "state": row.state,
        "on": {
            "event": row.event,
            "type": row.signal_type or row.task_type,
            "match": row.match,
            "plan": row.plan_id,
            "interval_s": row.interval_s,
        },
        "content": row.content,
        "expect": {"type": expects, "match": row.expect_match} if expects else None,
        "max_retries": row.max_retries,
        "on_failed": row.on_failed,
        "agent": row.agent.name if row.agent else None,
        "agent_id": row.agent_id,
        "once_per": row.once_per,
        "hold_stop": row.hold_stop,
        "created_by": {"type": row.created_by_type, "name": row.created_by_name},
        "activated_at": row.activated_at,
        "retired_at": row.retired_at,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "version": row.version,
    }


class RuleList(Listed):
    data: list[RuleOut] = Field(description="rules, newest first")

    model_config = ConfigDict(
        json_schema_extra={"example": {"data": [RULE], "next_cursor": None, "has_more": False}}
    )


# ---- trial


class SampleIn(In):
    """Something that could trigger a rule: a signal with its data, or a task."""

    event: Literal["signal", "task_claimed"] = Field("signal", description="what happens")
    type: str = Field("", max_length=EXPECT_TYPE_LENGTH, description="the signal's or task's type")
    data: dict[str, Any] = Field(default_factory=dict, description="the signal's data")
    plan: str | None = Field(None, description=f"the task's plan: {PLAN_ID_OR_REF}")
    agent: str | None = Field(None, description="the agent's name; null for any agent")

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"type": "fs_write", "data": {"path": "src/a.py", "tool": "Edit"}}
        }
    )


class TrialIn(In):
    rule: RuleIn = Field(description="the rule, as it would be created")
    sample: SampleIn = Field(description="what could trigger it")

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "rule": RULE_IN,
                "sample": {"type": "fs_write", "data": {"path": "src/a.py", "tool": "Edit"}},
            }
        }
    )


class ConditionOut(Schema):
    field: str = Field(description="the part of the sample that is compared")
    expected: Any = Field(description="the value that the rule names")
    actual: Any = Field(description="the value in the sample, or null")
    holds: bool = Field(description="true if they agree")
    text: str = Field(description="the condition as a sentence")


class TrialOut(Schema):
    fires: bool = Field(description="whether the sample would send the instruction")
    conditions: list[ConditionOut] = Field(description="every condition of the rule")
    texts: list[str] = Field(description="what the agent would be told, delivery by delivery")

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "fires": True,
                "conditions": [
                    {
                        "field": "path",
                        "expected": {"glob": "src/**"},
                        "actual": "src/a.py",
                        "holds": True,
                        "text": "path src/a.py is in src/**",
                    }
                ],
                "texts": ["Run the tests", "Run the tests", "**IMPORTANT:** Run the tests"],
            }
        }
    )


def trial_out(trial: Trial) -> dict[str, Any]:
    return {
        "fires": trial.fires,
        "conditions": [
            {
                "field": each.field,
                "expected": each.expected,
                "actual": each.actual,
                "holds": each.holds,
                "text": each.text,
            }
            for each in trial.conditions
        ],
        "texts": trial.texts,
    }


# ---- hold


class HoldIn(In):
    session: str = Field("", max_length=SESSION_LENGTH, description="the agent's session")

    model_config = ConfigDict(json_schema_extra={"example": {"session": "7f9a"}})


class HeldOut(Schema):
    id: UUID = Field(description="the instruction's id")
    rule: UUID | None = Field(description="its rule")
    text: str = Field(description="the text for the agent, at its urgency")
    holds: int = Field(description="how often it kept the agent from stopping, this time included")
    holds_left: int = Field(description="how often it still can")


HELD: dict[str, Any] = {
    "id": ID,
    "rule": AGENT_ID,
    "text": "Run the tests after changing code.",
    "holds": 1,
    "holds_left": 6,
}


class HoldOut(Schema):
    hold: bool = Field(description="true if the agent must not stop yet")
    text: str = Field(description="what to tell the agent; empty if it may stop")
    instructions: list[HeldOut] = Field(description="what keeps the agent from stopping")
    let_go: list[UUID] = Field(
        description="instructions that kept it from stopping seven times and failed now"
    )
    escalations: list[UUID] = Field(description="the questions to a person about them")

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "hold": True,
                "text": "Run the tests after changing code.",
                "instructions": [HELD],
                "let_go": [],
                "escalations": [],
            }
        }
    )
