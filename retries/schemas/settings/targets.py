"""Schemas of targets for the times of instructions and tasks."""

from datetime import datetime
from typing import Literal

from pydantic import Field, StrictInt, model_validator

from ledger.schemas.shapes import Shape, field
from ledger.schemas.shared import AGENT_ID_OR_NAME, PLAN_ID_OR_REF, In
from retries.insight.targets import PERCENT, WITHIN_S

OWNERS = ("agent", "type", "plan")


class TargetIn(In, example={"type": "code", "measure": "wait", "percent": 95, "within_s": 120}):
    agent: str = Field("", max_length=64, description=AGENT_ID_OR_NAME)
    type: str = Field("", max_length=64, description="a type of tasks, such as code")
    plan: str = Field("", max_length=129, description=PLAN_ID_OR_REF)
    measure: Literal["ack", "wait", "run"] = Field(
        description="ack: an agent's acknowledgments; wait: tasks' first claims; run: attempts"
    )
    percent: StrictInt | None = Field(
        None,
        ge=PERCENT[0],
        le=PERCENT[1],
        description="the share that should be in time; without it, the target is removed",
    )
    within_s: StrictInt | None = Field(
        None, ge=WITHIN_S[0], le=WITHIN_S[1], description="the time in seconds"
    )

    @model_validator(mode="after")
    def check_parts(self) -> "TargetIn":
        if sum(bool(getattr(self, name)) for name in OWNERS) != 1:
            raise ValueError("Set one of 'agent', 'type', and 'plan'.")
        if (self.percent is None) != (self.within_s is None):
            raise ValueError("Set 'percent' and 'within_s', or neither to remove the target.")
        return self


class TargetOut(Shape):
    agent: str | None = field("the agent's name, or null", source="agent.name")
    type: str | None = field("the type of tasks, or null", "code", empty_is_null=True)
    plan: str | None = field("the plan's ref, or null", source="plan.ref")
    measure: str = field("ack, wait, or run", "wait")
    percent: int | None = field("the share that should be in time; null: removed", 95)
    within_s: int | None = field("the time in seconds; null: removed", 120)
    set_by: str = field("who set or removed it", "ada", source="set_by_name")
    set_at: datetime = field("when it was set or removed")


class TargetsOut(Shape):
    data: list[TargetOut] = field("those of agents by name, and then those of types and plans")
