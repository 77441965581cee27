"""Schemas of standing instructions."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from ninja import Schema
from pydantic import Field, StrictBool, StrictInt

from ledger.instructions import EXPECT_TYPE_LENGTH, MATCH_SCALARS, MAX_RETRIES
from ledger.models import StandingInstruction
from ledger.models.standing_instruction import INTERVAL_S, RuleState
from ledger.schemas.instructions import ExpectIn
from ledger.schemas.shapes import AGENT_ID, AT, Part, Shape, field
from ledger.schemas.shared import AGENT_ID_OR_NAME, PLAN_ID_OR_REF, STATES, In, ListQuery
from ledger.standing_instructions.firing import SESSION_LENGTH
from ledger.states import prefixed

Event = Literal["signal", "session_start", "task_claimed", "every"]
Per = Literal["trigger", "session", "attempt", "day"]

ON: dict[str, Any] = {"event": "signal", "type": "fs_write", "match": {"path": {"glob": "src/**"}}}
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


class RetireQuery(Schema):
    reason: str = Field("", max_length=2000, description="why, for the journal")


class OnIn(In, example=ON):
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


class RuleIn(In, example=RULE_IN):
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


class RulePatch(In, example={"hold_stop": True}):
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


class OnOut(Part):
    event: Event = field("what the rule waits for", "signal")
    type: str | None = field(
        "the signal's or the task's type, or null",
        "fs_write",
        source=lambda row: row.signal_type or row.task_type,
    )
    match: dict[str, Any] = field(
        "values that the signal's data must contain", {"path": {"glob": "src/**"}}
    )
    plan: UUID | None = field("the plan whose tasks it is for, or null", source="plan_id")
    interval_s: int | None = field("seconds between two instructions, or null")


def read_expected(rule: StandingInstruction) -> dict[str, Any] | None:
    type = rule.expect_type
    return {"type": type, "match": rule.expect_match} if type else None


class RuleOut(Shape):
    id: UUID = field("the rule's id")
    state: RuleState = field("active, paused, draft, or retired", "active")
    on: OnOut = field("when the rule sends its instruction", source=".")
    content: str = field("what the agent is told", "Run the tests after changing code.")
    expect: dict[str, Any] | None = field(
        "the signal that acknowledges it, or null",
        {"type": "fs_command", "match": {"line": "make test"}},
        source=read_expected,
    )
    max_retries: int = field("reminders after the first delivery", 3)
    on_failed: str = field("what happens when it is ignored: record or escalate", "escalate")
    agent: str | None = field("the agent's name; null for every agent", source="agent.name")
    agent_id: UUID | None = field("the agent's id; null for every agent")
    once_per: Per = field("how often one agent is told, at most", "attempt")
    hold_stop: bool = field("true if the agent must not stop while the instruction is open", True)
    created_by: dict[str, str] = field(
        "who created it: type and name",
        {"type": "token", "name": "producer"},
        source=lambda row: {"type": row.created_by_type, "name": row.created_by_name},
    )
    activated_at: datetime | None = field("when it was last switched on, or null", AT)
    retired_at: datetime | None = field("when it was retired, or null")
    created_at: datetime = field("when it was created")
    updated_at: datetime = field("when it was last changed")
    version: int = field("the version, for If-Match", 1)


# ---- trial


class SampleIn(In, example={"type": "fs_write", "data": {"path": "src/a.py", "tool": "Edit"}}):
    """Something that could trigger a rule: a signal with its data, or a task."""

    event: Literal["signal", "task_claimed"] = Field("signal", description="what happens")
    type: str = Field("", max_length=EXPECT_TYPE_LENGTH, description="the signal's or task's type")
    data: dict[str, Any] = Field(default_factory=dict, description="the signal's data")
    plan: str | None = Field(None, description=f"the task's plan: {PLAN_ID_OR_REF}")
    agent: str | None = Field(None, description="the agent's name; null for any agent")


class TrialIn(
    In,
    example={
        "rule": RULE_IN,
        "sample": {"type": "fs_write", "data": {"path": "src/a.py", "tool": "Edit"}},
    },
):
    rule: RuleIn = Field(description="the rule, as it would be created")
    sample: SampleIn = Field(description="what could trigger it")


# `ConditionOut` has a field called `field`.
declare = field


class ConditionOut(Part):
    field: str = declare("the part of the sample that is compared", "path")
    expected: Any = declare("the value that the rule names", {"glob": "src/**"})
    actual: Any = declare("the value in the sample, or null", "src/a.py")
    holds: bool = declare("true if they agree", True)
    text: str = declare("the condition as a sentence", "path src/a.py is in src/**")


class TrialOut(Shape):
    fires: bool = field("whether the sample would send the instruction", True)
    conditions: list[ConditionOut] = field("every condition of the rule")
    texts: list[str] = field(
        "what the agent would be told, delivery by delivery",
        ["Run the tests", "Run the tests", "**IMPORTANT:** Run the tests"],
    )


# ---- hold


class HoldIn(In, example={"session": "7f9a"}):
    session: str = Field("", max_length=SESSION_LENGTH, description="the agent's session")


class HeldOut(Part, keyed=True):
    id: UUID = field("the instruction's id")
    rule: UUID | None = field("its rule", AGENT_ID, source="rule_id")
    text: str = field(
        "the text for the agent, at its urgency",
        "Run the tests after changing code.",
        source=lambda row: prefixed(row["content"], row["retry_count"]),
    )
    holds: int = field("how often it kept the agent from stopping, this time included", 1)
    holds_left: int = field("how often it still can", 6, given=True)


class HoldOut(Shape):
    hold: bool = field("true if the agent must not stop yet", True)
    text: str = field(
        "what to tell the agent; empty if it may stop", "Run the tests after changing code."
    )
    instructions: list[HeldOut] = field("what keeps the agent from stopping")
    let_go: list[UUID] = field("instructions that kept it from stopping seven times and failed now")
    escalations: list[UUID] = field("the questions to a person about them")
