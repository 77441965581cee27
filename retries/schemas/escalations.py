"""Schemas of escalations."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from ninja import Schema
from pydantic import AwareDatetime, ConfigDict, Field, StrictInt

from ledger.models import Failure
from ledger.schemas.shapes import AGENT_ID, AT, ID
from ledger.schemas.shared import AGENT_ID_OR_NAME, PLAN_ID_OR_REF, In, Listed, ListQuery
from ledger.states import TaskState, count_reminders, urgency_of
from retries.escalations import answer_outcome
from retries.escalations.answer_outcome import TaskOutcome
from retries.escalations.choices import FIX_LENGTH, NOTE_LENGTH
from retries.escalations.lifecycle import resolution
from retries.escalations.options import Option, list_options
from retries.escalations.record import (
    Record,
    failure_of,
    load_record,
    read_evidence,
    render_escalation,
)
from retries.escalations.response_schema import MOST_FIELDS
from retries.failures.fixes.suggestions import find_first_fixes
from retries.insight.prediction_reads import find_attempt_predictions
from retries.models import Escalation
from retries.schemas.attempts import EvidenceOut
from retries.schemas.diagnoses import DIAGNOSIS, DiagnosisOut, DiagnosisQuery, diagnosis_out
from retries.states import Answer, EscalationState, Reason


class EscalationQuery(ListQuery, DiagnosisQuery):
    state: Literal["", "open", "resolved", "expired", "withdrawn"] = Field(
        "", description="open, resolved, expired, or withdrawn; all if empty"
    )
    reason: str = Field("", description="why a person is needed, such as max_retries_exceeded")
    plan: str = Field("", description=PLAN_ID_OR_REF)
    agent: str = Field("", description=AGENT_ID_OR_NAME)
    assignee: str = Field("", description="the assignee's username")


class ResolveIn(In):
    action: Literal["retry", "fix", "skip", "abort", "answer", "accept"] | None = Field(
        None, description="the answer; or send 'text'"
    )
    instruction: str = Field(
        "", max_length=FIX_LENGTH, description="the text of a fix or of an answer"
    )
    response: dict[str, Any] | None = Field(
        None,
        max_length=MOST_FIELDS,
        description="with 'answer', the values that 'response_schema' asks for",
    )
    note: str = Field(
        "", max_length=NOTE_LENGTH, description="a note for the journal; the agent does not see it"
    )
    dependents: Literal["continue", "block", "skip"] = Field(
        "continue", description="with 'skip', what to do with the tasks that depend on it"
    )
    text: str = Field(
        "",
        max_length=FIX_LENGTH + 10,
        description="one line instead of fields, such as 'fix: trim first'",
    )
    version: StrictInt | None = Field(
        None, description="the version you read; If-Match means the same"
    )

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"action": "fix", "instruction": "Run `openspec --version` and report it"}
        },
    )


OPTION = {
    "name": "fix",
    "title": "Send new text",
    "description": "coder gets your text first, with reminders until it acknowledges.",
    "requires_text": True,
    "prompt_fill": "",
    "confirm": False,
    "dependents": [],
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
    "agent": "coder",
    "agent_id": AGENT_ID,
    "raised_by": {"type": "system", "name": "idle_check"},
    "question": None,
    "choices": [],
    "response_schema": None,
    "client_state": None,
    "options": [OPTION],
    "assignee": None,
    "notify_again_at": AT,
    "snoozed_until": None,
    "expires_at": None,
    "on_expiry": None,
    "opened_at": AT,
    "closed_at": None,
    "url": f"https://tenfour.example.org/escalations/{ID}/",
    "resolution": None,
    "outcome": None,
    **dict.fromkeys(DIAGNOSIS),
    "evidence": None,
    "version": 1,
}


class DependentsOut(Schema):
    name: str = Field(description="the value to send as 'dependents'")
    title: str = Field(description="the choice in words")


class OptionOut(Schema):
    name: str = Field(description="the value to send as 'action'")
    title: str = Field(description="the button's text")
    description: str = Field(description="what the answer does")
    requires_text: bool = Field(description="true if 'instruction' is required")
    prompt_fill: str = Field(
        description="with 'fix', a suggestion to start the text with; empty if there is none"
    )
    confirm: bool = Field(description="true if it can't be undone: ask first")
    dependents: list[DependentsOut] = Field(
        description="with 'skip', the choices for the tasks that depend on it"
    )


class OutcomeOut(Schema):
    task: UUID = Field(description="the task, or the one that replaced it in a restart or replay")
    run: int | None = Field(description="the plan's run; null outside a plan")
    state: TaskState = Field(description="the task's state")
    attempts: int = Field(description="number of the latest attempt")
    attempt_limit: int = Field(description="the number of the last attempt that may run")
    asked_again: int | None = Field(
        description="the attempt after which it needed a person again, or null"
    )


class EscalationOut(DiagnosisOut):
    evidence: EvidenceOut | None = Field(
        description="what the policy's decision to ask rests on; null for other reasons"
    )
    id: UUID = Field(description="the escalation's id")
    state: EscalationState = Field(
        description="open until it is answered, expires, or is withdrawn"
    )
    reason: str = Field(description="why a person is needed, such as max_retries_exceeded")
    severity: str = Field(description="low, normal, or high")
    title: str = Field(description="what happened, in one line")
    message: str = Field(description="what happened; Markdown for a task")
    task: UUID | None = Field(description="the task that it is about, or null")
    plan: UUID | None = Field(description="the plan of its task, or null")
    instruction: UUID | None = Field(description="the instruction that it is about, or null")
    agent: str = Field(description="the agent's name")
    agent_id: UUID = Field(description="the agent's id")
    raised_by: dict[str, str] = Field(description="who asks: type and name")
    question: str | None = Field(description="the question of the agent or plan, or null")
    choices: list[dict[str, str]] = Field(description="answers that the agent suggests")
    response_schema: dict[str, Any] | None = Field(
        description="the JSON Schema of an answer's values, or null"
    )
    client_state: Any = Field(description="the agent's own value, unchanged")
    options: list[OptionOut] = Field(description="possible answers; empty once it is closed")
    assignee: str | None = Field(description="the assignee's username; null if there is none")
    notify_again_at: datetime | None = Field(
        description="when people are reminded again; null once it is closed"
    )
    snoozed_until: datetime | None = Field(
        description="out of the inbox until then; null if it is not snoozed"
    )
    expires_at: datetime | None = Field(description="when it expires; null if it never does")
    on_expiry: str | None = Field(description="what happens when it expires; null if it never does")
    opened_at: datetime = Field(description="when it was opened")
    closed_at: datetime | None = Field(description="when it was closed; null while it is open")
    url: str = Field(description="its page")
    resolution: dict[str, Any] | None = Field(
        description="the answer, with who gave it and when; null before"
    )
    outcome: OutcomeOut | None = Field(description="what happened to the task since the answer")
    version: int = Field(description='changes with every update; the ETag is "v<version>"')

    model_config = ConfigDict(json_schema_extra={"example": ESCALATION})


class EscalationList(Listed):
    data: list[EscalationOut] = Field(description="the rows of this page")

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"data": [ESCALATION], "next_cursor": None, "has_more": False}
        }
    )


class ResolveOut(Schema):
    escalation: EscalationOut = Field(description="the closed escalation")
    task: dict[str, Any] | None = Field(description="the task's current state")
    decision: dict[str, Any] = Field(description="what the answer did")
    warnings: list[str] = Field(description="such as a secret in the text")

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "escalation": ESCALATION | {"state": "resolved", "options": [], "version": 2},
                "task": None,
                "decision": {"action": "fix", "resent_as": ID},
                "warnings": [],
            }
        }
    )


def title(escalation: Escalation) -> str:
    """Return one line that says what happened."""
    if task := escalation.task:
        if escalation.reason == Reason.MAX_RETRIES_EXCEEDED:
            return f"{task} failed {escalation.attempts} of {escalation.attempt_limit} attempts"
        return f"{task}: {escalation.reason.replace('_', ' ')}"
    row = escalation.instruction
    times = row.deliveries if row else 0
    reminders = count_reminders(row.retry_count, row.holds) if row else 0
    last = f", the last time as {urgency_of(reminders).upper()}" if row else ""
    said = f"after {times} deliveries{last}" if times != 1 else "after one delivery"
    return f"{escalation.agent.name} has not acknowledged an instruction {said}"


def escalation_out(escalation: Escalation) -> dict[str, Any]:
    """Return the JSON object for an escalation whose agent and subject are loaded."""
    return escalations_out([escalation])[0]


def escalations_out(escalations: Sequence[Escalation]) -> list[dict[str, Any]]:
    asked = [each.task_id for each in escalations if each.is_open and each.task_id]
    fixes = find_first_fixes(asked) if asked else {}
    since = answer_outcome.find_outcomes(escalations)
    records = {each.pk: load_record(each) for each in escalations}
    failures = {each.pk: last_failure(each, records[each.pk]) for each in escalations}
    chances = find_attempt_predictions(each.attempt_id for each in failures.values() if each)
    return [
        base_out(each, records[each.pk], fix=fix)
        | diagnosis_out(failure, chances.get(failure.attempt_id) if failure else None, offered=fix)
        | {"outcome": outcome_out(since.get(each.pk))}
        for each in escalations
        for failure in [failures[each.pk]]
        for fix in [fixes.get(each.task_id, "") if each.is_open and each.task_id else ""]
    ]


def evidence_of(escalation: Escalation, record: Record | None) -> dict[str, Any] | None:
    """Return what the policy's decision to ask rests on, with all its fields; None for others."""
    found = read_evidence(escalation, record.until(escalation)) if record else {}
    return dict.fromkeys(EvidenceOut.model_fields) | found if found else None


def outcome_out(since: TaskOutcome | None) -> dict[str, Any] | None:
    if since is None:
        return None
    return {
        "task": since.task_id,
        "run": since.run,
        "state": since.state,
        "attempts": since.attempts,
        "attempt_limit": since.attempt_limit,
        "asked_again": since.asked_again,
    }


def base_out(escalation: Escalation, record: Record | None, *, fix: str) -> dict[str, Any]:
    """Return the JSON object without its diagnosis and outcome.

    `fix` is the suggested text of a fix.
    """
    is_open = escalation.is_open
    offered = list_options(escalation, record) if is_open else []
    return {
        "id": escalation.id,
        "state": escalation.state,
        "reason": escalation.reason,
        "severity": escalation.severity,
        "title": title(escalation),
        "message": render_escalation(escalation, record),
        "task": escalation.task_id,
        "plan": escalation.task.plan_id if escalation.task else None,
        "instruction": escalation.instruction_id,
        "agent": escalation.agent.name,
        "agent_id": escalation.agent_id,
        "raised_by": {"type": escalation.raised_by_type, "name": escalation.raised_by_name},
        "question": escalation.question or None,
        "choices": escalation.choices,
        "response_schema": escalation.response_schema,
        "client_state": escalation.client_state,
        "options": [option_out(each, fix=fix) for each in offered],
        "assignee": escalation.assignee.get_username() if escalation.assignee else None,
        "notify_again_at": escalation.notify_again_at if is_open else None,
        "snoozed_until": escalation.snoozed_until,
        "expires_at": escalation.expires_at,
        "on_expiry": escalation.on_expiry,
        "opened_at": escalation.opened_at,
        "closed_at": escalation.closed_at,
        "url": f"/escalations/{escalation.id}/",  # `complete_url` adds the server's address
        "resolution": resolution(escalation),
        "evidence": evidence_of(escalation, record),
        "version": escalation.version,
    }


def last_failure(escalation: Escalation, record: Record | None) -> Failure | None:
    """Return the last failure of the task until it was escalated."""
    attempts = record.until(escalation) if record else []
    found = (failure_of(attempt) for attempt in reversed(attempts))
    return next((failure for failure in found if failure), None)


def option_out(option: Option, *, fix: str) -> dict[str, Any]:
    return {
        "name": option.name,
        "title": option.title,
        "description": option.description,
        "requires_text": option.requires_text,
        "prompt_fill": fix if option.name == Answer.FIX else "",
        "confirm": option.confirm,
        "dependents": [{"name": way.name, "title": way.title} for way in option.dependents],
    }


class AssignIn(In):
    user: str | None = Field(max_length=150, description="a username; null for no one")

    model_config = ConfigDict(json_schema_extra={"example": {"user": "mara"}})


class SnoozeIn(In):
    until: AwareDatetime | None = Field(
        None, description="when it comes back, at most 90 days from now; null brings it back now"
    )

    model_config = ConfigDict(json_schema_extra={"example": {"until": AT}})


class CommentIn(In):
    text: str = Field(max_length=NOTE_LENGTH, description="the comment")

    model_config = ConfigDict(
        json_schema_extra={"example": {"text": "The archive has been down since noon"}}
    )
