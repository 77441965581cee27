"""Schemas of escalation policies and rotas."""

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import Field, StrictBool, StrictInt

from ledger.schemas.shapes import Part, Shape, field
from ledger.schemas.shared import In
from retries.on_call.editing import ANSWER_WITHIN_S, MOST_SHIFTS, MOST_STEPS

STEPS = ["0 tell rota:nights", "15 remind", "30 tell mara, role:admin", "60 answer retry"]
SHIFTS = ["mon-fri 18:00-08:00 jon", "sat,sun 00:00-00:00 mara, jon"]
POLICY: dict[str, Any] = {
    "name": "deploys",
    "conditions": "agent:deploy-* severity:high",
    "answer_within_s": 3600,
    "steps": STEPS,
}
ROTA: dict[str, Any] = {
    "name": "nights",
    "timezone": "Europe/Berlin",
    "shifts": SHIFTS,
    "fallback": ["mara"],
}
TEXTS = {
    "policy_name": "the policy's name, once in the project",
    "position": "the policy with the lowest position whose conditions hold applies; null: the last",
    "conditions": (
        "such as agent:deploy-* severity:high; the keys are reason, severity, agent, plan, type, "
        "and pattern, and the values may have * and commas. Empty: every escalation"
    ),
    "answer_within_s": (
        f"{ANSWER_WITHIN_S[0]} to {ANSWER_WITHIN_S[1]}: an escalation that is open after that is "
        "overdue"
    ),
    "steps": (
        "one line each: the minutes after it opened, then 'tell' with usernames, rota:NAME, "
        "role:NAME or group:NAME, 'remind', or 'answer' with an answer on one line as the last"
    ),
    "enabled": "false to switch the policy off",
    "rota_name": "the rota's name, once in the project; steps name it as rota:NAME",
    "timezone": "the zone of its times, such as Europe/Berlin",
    "shifts": "one line each: days, local times, and usernames, the first before the others",
    "fallback": "the usernames of those on call when no shift is",
}
Lines = list[str]


class EscalationPolicyIn(In, example=POLICY):
    name: str = Field(description=TEXTS["policy_name"])
    position: StrictInt | None = Field(None, description=TEXTS["position"])
    conditions: str = Field("", description=TEXTS["conditions"])
    answer_within_s: StrictInt = Field(description=TEXTS["answer_within_s"])
    steps: Lines = Field(max_length=MOST_STEPS, description=TEXTS["steps"])
    enabled: StrictBool = Field(True, description=TEXTS["enabled"])


class EscalationPolicyPatch(In, example={"steps": STEPS[:2]}):
    name: str | None = Field(None, description=TEXTS["policy_name"])
    position: StrictInt | None = Field(None, description=TEXTS["position"])
    conditions: str | None = Field(None, description=TEXTS["conditions"])
    answer_within_s: StrictInt | None = Field(None, description=TEXTS["answer_within_s"])
    steps: Lines | None = Field(None, max_length=MOST_STEPS, description=TEXTS["steps"])
    enabled: StrictBool | None = Field(None, description=TEXTS["enabled"])


class EscalationPolicyOut(Shape):
    id: UUID = field("the policy's id")
    name: str = field(TEXTS["policy_name"], POLICY["name"])
    position: int = field("its place in the order", 1)
    conditions: str = field(TEXTS["conditions"], POLICY["conditions"])
    answer_within_s: int = field(TEXTS["answer_within_s"], 3600)
    steps: list[str] = field(TEXTS["steps"], STEPS)
    enabled: bool = field(TEXTS["enabled"], True)
    answer_by: str | None = field(
        "who wrote the default answer; null without one",
        "mara",
        source="answer_by_name",
        empty_is_null=True,
    )
    changed_by: str = field("who changed it last", "mara", source="changed_by_name")
    created_at: datetime = field("when it was created")
    updated_at: datetime = field("when it was last changed")
    version: int = field("the version, which If-Match names", 1)


class RotaIn(In, example=ROTA):
    name: str = Field(description=TEXTS["rota_name"])
    timezone: str = Field("UTC", description=TEXTS["timezone"])
    shifts: Lines = Field(max_length=MOST_SHIFTS, description=TEXTS["shifts"])
    fallback: Lines = Field(max_length=MOST_SHIFTS, description=TEXTS["fallback"])


class RotaPatch(In, example={"fallback": ["jon"]}):
    name: str | None = Field(None, description=TEXTS["rota_name"])
    timezone: str | None = Field(None, description=TEXTS["timezone"])
    shifts: Lines | None = Field(None, max_length=MOST_SHIFTS, description=TEXTS["shifts"])
    fallback: Lines | None = Field(None, max_length=MOST_SHIFTS, description=TEXTS["fallback"])


class OnCallOut(Part):
    starts_at: datetime = field("when they are on call")
    ends_at: datetime = field("when the next people are")
    people: list[str] = field("their usernames, the first before the others", ["jon"])


class RotaOut(Shape):
    id: UUID = field("the rota's id")
    name: str = field(TEXTS["rota_name"], ROTA["name"])
    timezone: str = field(TEXTS["timezone"], ROTA["timezone"])
    shifts: list[str] = field(TEXTS["shifts"], SHIFTS)
    fallback: list[str] = field(TEXTS["fallback"], ["mara"])
    on_call: list[OnCallOut] = field("who is on call in the next 7 days", given=True)
    changed_by: str = field("who changed it last", "mara", source="changed_by_name")
    created_at: datetime = field("when it was created")
    updated_at: datetime = field("when it was last changed")
    version: int = field("the version, which If-Match names", 1)
