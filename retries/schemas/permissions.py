"""Schemas of permission requests and rules."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field, StrictInt

from ledger.schemas.shapes import AGENT_ID, ID, Part, Shape, field
from ledger.schemas.shared import AGENT_ID_OR_NAME, In, ListQuery
from retries.escalations import typed_answers
from retries.models import PermissionRequest
from retries.permissions.forms import answered_input
from retries.permissions.requests import POLL_EVERY_S, find_answer
from retries.permissions.rules import MATCHER_LENGTH, MESSAGE_LENGTH, Trial
from retries.states import PermissionState, RuleState, WhenSilent


class PermissionQuery(ListQuery):
    state: str = Field("", description="such as waiting, allowed or denied; all if empty")
    agent: str = Field("", description=AGENT_ID_OR_NAME)
    rule: UUID | None = Field(None, description="those that this rule decided")


class PermissionIn(
    In,
    example={
        "tool": "Bash",
        "input": {"command": "npm test"},
        "folder": "/srv/web-shop",
        "session": "s-8f21",
        "wait_s": 540,
    },
):
    tool: str = Field(max_length=128, description="the tool, as the agent's program names it")
    input: dict[str, Any] = Field({}, description="what the tool would be called with")
    folder: str = Field("", max_length=4096, description="the folder that the agent works in")
    session: str = Field("", max_length=256, description="the agent's session")
    call_id: str = Field("", max_length=256, description="the tool call, if the agent names calls")
    task: UUID | None = Field(
        None, description="the task that it is for; by default the one that the session works on"
    )
    said: str = Field("", max_length=100_000, description="what the agent said last")
    asked_by: str = Field("", max_length=64, description="the program that asks")
    when_silent: Literal["terminal_waits", "terminal_asks", "refuses"] = Field(
        "refuses", description="what happens to the call if no answer comes"
    )
    wait_s: StrictInt = Field(
        540, ge=1, le=86_400, description="how many seconds the agent waits for an answer"
    )


class EndIn(In, example={"answered_there": True}):
    answered_there: bool = Field(
        False, description="true if a person at the agent's terminal has answered"
    )


class AnswerOut(Part):
    allow: bool = field("true: the agent may make this call", True)
    message: str = field("with a denial, what the agent should know")
    input: dict[str, Any] | None = field(
        "what to call the tool with instead; null to leave it as it is"
    )
    by: str = field("who decided: a person's username, or 'rule'", "mara")


class MarkOut(Part, keyed=True):
    kind: str = field("such as network or delete", "network")
    text: str = field("what stands out, for a person", "Leaves this machine")
    span: list[int] | None = field("where in the command it stands, or null", [0, 8])
    is_red: bool = field("true if it needs the most care")


class PermissionOut(Shape):
    id: UUID = field("the request's id")
    state: PermissionState = field("waiting until it is decided or ends", "waiting")
    answer: AnswerOut | None = field("the decision; null without one", None, given=True)
    tool: str = field("the tool", "Bash")
    title: str = field("the call in one line", "npm test")
    input: dict[str, Any] = field("what the tool would be called with", {"command": "npm test"})
    folder: str = field("the folder that the agent works in", "/srv/web-shop")
    session: str = field("the agent's session", "s-8f21")
    said: str = field("what the agent said last")
    asked_by: str = field("the program that asked", "claude-code")
    marks: list[MarkOut] = field("what a careful person looks for", [])
    proposed: str | None = field(
        "the matcher of a rule that would allow this call, or null", "npm test"
    )
    when_silent: WhenSilent = field("what happens if no answer comes", "terminal_asks")
    task: UUID | None = field("the task that it is for, or null", source="task_id")
    agent: str = field("the agent's name", "coder", source="agent.name")
    agent_id: UUID = field("the agent's id", AGENT_ID)
    rules: list[UUID] = field("the rules that decided it", [], source="rule_ids")
    escalation: UUID | None = field("the escalation that asks people, or null", ID, given=True)
    url: str | None = field(
        "its page, or null", f"https://tenfour.example.org/escalations/{ID}/", given=True
    )
    asked_at: datetime = field("when the agent asked")
    expires_at: datetime = field("when the agent stops waiting")
    taken_at: datetime | None = field("when the agent took the decision, or null")
    closed_at: datetime | None = field("when it was decided or ended; null while it waits")
    poll_after_s: int = field("ask again after so many seconds", POLL_EVERY_S, given=True)


def permission_out(request: PermissionRequest, *, revealed: bool) -> dict[str, Any]:
    # `revealed` shows an answer as a person typed it.
    asked = next((each.pk for each in request.escalation_set.all()), None)
    return PermissionOut.write(
        request,
        answer=answer_out(request, revealed=revealed),
        escalation=asked,
        url=f"/escalations/{asked}/" if asked else None,
        poll_after_s=POLL_EVERY_S,
    )


def answer_out(request: PermissionRequest, *, revealed: bool) -> dict[str, Any] | None:
    if request.state not in (PermissionState.ALLOWED, PermissionState.DENIED):
        return None
    answered = find_answer(request)
    if answered and revealed:
        answered = typed_answers.reveal(answered)
    allows = request.state == PermissionState.ALLOWED
    changed = answered.response if answered and allows else None
    return {
        "allow": allows,
        "message": (answered.fix if answered else request.message) or "",
        "input": answered_input(request.input, changed) if changed else None,
        "by": answered.answered_by_name if answered else "rule",
    }


class RuleQuery(ListQuery):
    state: Literal["", "active", "revoked", "expired"] = Field(
        "", description="active, revoked, or expired; all if empty"
    )


class RuleIn(In, example={"tool": "Bash", "matcher": "npm test"}):
    tool: str = Field(max_length=128, description="the tool, such as Bash or Edit")
    matcher: str = Field(
        "",
        max_length=MATCHER_LENGTH,
        description="command words, or a path; * is one word, ** at the end any number",
    )
    allows: bool = Field(True, description="false: the calls are denied")
    message: str = Field(
        "", max_length=MESSAGE_LENGTH, description="with a denial, what the agent should know"
    )
    agent: str = Field("", description="the agent's id or name; all agents if empty")


class PermissionRuleOut(Shape):
    id: UUID = field("the rule's id")
    state: RuleState = field("active, revoked or expired", "active")
    tool: str = field("the tool", "Bash")
    matcher: str = field("command words, or a path", "npm test")
    allows: bool = field("false: the calls are denied", True)
    message: str = field("what a denied agent is told")
    agent: str | None = field("the agent's name; null: all agents", source="agent.name")
    created_by: str = field("who put it into effect", "mara", source="created_by_name")
    created_at: datetime = field("when it was put into effect")
    hits: int = field("how many calls it has decided", 31)
    last_used_at: datetime | None = field("when it decided the last one, or null")
    expires_at: datetime = field("when it ends if it is not used until then")
    ended_at: datetime | None = field("when it ended; null while it is in effect")


class TrialOut(Shape):
    tried: int = field("how many calls of the last 30 days were looked at", 212)
    matched: int = field("how many the rule would have decided", 31)
    against: int = field("how many of those a person decided the other way", 0)
    calls: list[str] = field("the newest of them", ["npm test"])


def trial_out(trial: Trial) -> dict[str, Any]:
    return {
        "tried": trial.tried,
        "matched": trial.matched,
        "against": trial.against,
        "calls": [request.title for request in trial.newest],
    }
