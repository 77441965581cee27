"""Schemas of escalations."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import AwareDatetime, Field, StrictInt

from ledger.models import Failure
from ledger.schemas.shapes import AGENT_ID, AT, ID, Part, Shape, example_of, field
from ledger.schemas.shared import AGENT_ID_OR_NAME, PLAN_ID_OR_REF, In, ListQuery
from ledger.states import TaskState, count_reminders, urgency_of
from retries.escalations import answer_outcome
from retries.escalations.answer_outcome import TaskOutcome
from retries.escalations.choices import FIX_LENGTH, NOTE_LENGTH
from retries.escalations.lifecycle import resolution
from retries.escalations.options import list_options
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
from retries.schemas.diagnoses import DiagnosisOut, DiagnosisQuery, diagnosis_out
from retries.states import Answer, EscalationState, Reason


class EscalationQuery(ListQuery, DiagnosisQuery):
    state: Literal["", "open", "resolved", "expired", "withdrawn"] = Field(
        "", description="open, resolved, expired, or withdrawn; all if empty"
    )
    reason: str = Field("", description="why a person is needed, such as max_retries_exceeded")
    plan: str = Field("", description=PLAN_ID_OR_REF)
    agent: str = Field("", description=AGENT_ID_OR_NAME)
    assignee: str = Field("", description="the assignee's username")


class ResolveIn(
    In, example={"action": "fix", "instruction": "Run `openspec --version` and report it"}
):
    action: (
        Literal["retry", "fix", "skip", "abort", "answer", "accept", "allow", "deny", "grant"]
        | None
    ) = Field(None, description="the answer; or send 'text'")
    instruction: str = Field(
        "",
        max_length=FIX_LENGTH,
        description="the text of a fix, an answer, or a denial; "
        "with 'grant', the amount, such as '500000 tokens' or '5 USD'",
    )
    response: dict[str, Any] | None = Field(
        None,
        max_length=MOST_FIELDS,
        description="with 'answer' or 'allow', the values that 'response_schema' asks for",
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


class DependentsOut(Part):
    name: str = field("the value to send as 'dependents'")
    title: str = field("the choice in words")


class OptionOut(Part):
    name: str = field("the value to send as 'action'", "fix")
    title: str = field("the button's text", "Send new text")
    description: str = field(
        "what the answer does", "coder gets your text first, with reminders until it acknowledges."
    )
    requires_text: bool = field("true if 'instruction' is required", True)
    prompt_fill: str = field(
        "with 'fix', a suggestion to start the text with; empty if there is none", given=True
    )
    confirm: bool = field("true if it can't be undone: ask first")
    dependents: list[DependentsOut] = field(
        "with 'skip', the choices for the tasks that depend on it", []
    )


class OutcomeOut(Part):
    task: UUID = field(
        "the task, or the one that replaced it in a restart or replay", source="task_id"
    )
    run: int | None = field("the plan's run; null outside a plan")
    state: TaskState = field("the task's state", "done")
    attempts: int = field("number of the latest attempt")
    attempt_limit: int = field("the number of the last attempt that may run")
    asked_again: int | None = field("the attempt after which it needed a person again, or null")


def title(escalation: Escalation) -> str:
    if task := escalation.task:
        if escalation.reason == Reason.MAX_RETRIES_EXCEEDED:
            return f"{task} failed {escalation.attempts} of {escalation.attempt_limit} attempts"
        return f"{task}: {escalation.reason.replace('_', ' ')}"
    if request := escalation.permission:
        return f"{escalation.agent.name} asks for permission: {request.title}"
    row = escalation.instruction
    times = row.deliveries if row else 0
    reminders = count_reminders(row.retry_count, row.holds) if row else 0
    last = f", the last time as {urgency_of(reminders).upper()}" if row else ""
    said = f"after {times} deliveries{last}" if times != 1 else "after one delivery"
    return f"{escalation.agent.name} has not acknowledged an instruction {said}"


class EscalationFields(Part):
    evidence: EvidenceOut | None = field(
        "what the policy's decision to ask rests on; null for other reasons", None, given=True
    )
    id: UUID = field("the escalation's id")
    state: EscalationState = field("open until it is answered, expires, or is withdrawn", "open")
    reason: str = field(
        "why a person is needed, such as max_retries_exceeded", "instruction_ignored"
    )
    severity: str = field("low, normal, or high", "normal")
    title: str = field(
        "what happened, in one line",
        "coder has not acknowledged an instruction after 4 deliveries",
        source=title,
    )
    message: str = field(
        "what happened; Markdown for a task", "Check if the OpenSpec CLI is available", given=True
    )
    task: UUID | None = field("the task that it is about, or null", source="task_id")
    plan: UUID | None = field("the plan of its task, or null", source="task.plan_id")
    instruction: UUID | None = field(
        "the instruction that it is about, or null", ID, source="instruction_id"
    )
    permission: UUID | None = field(
        "the permission request that it is about, or null", source="permission_id"
    )
    agent: str = field("the agent's name", "coder", source="agent.name")
    agent_id: UUID = field("the agent's id", AGENT_ID)
    raised_by: dict[str, str] = field(
        "who asks: type and name",
        {"type": "system", "name": "idle_check"},
        source=lambda row: {"type": row.raised_by_type, "name": row.raised_by_name},
    )
    question: str | None = field("the question of the agent or plan, or null", empty_is_null=True)
    choices: list[dict[str, str]] = field("answers that the agent suggests")
    response_schema: dict[str, Any] | None = field("the JSON Schema of an answer's values, or null")
    client_state: Any = field("the agent's own value, unchanged", None)
    options: list[OptionOut] = field("possible answers; empty once it is closed", given=True)
    assignee: str | None = field(
        "the assignee's username; null if there is none",
        source=lambda row: row.assignee.get_username() if row.assignee else None,
    )
    policy: str | None = field(
        "the name of the escalation policy that says who is told; null if there is none",
        "nights",
        source="policy.name",
    )
    told: list[str] = field("the usernames of those whom the policy has told", ["mara"])
    next_step_at: datetime | None = field(
        "when the policy's next step is due; null if there is none",
        AT,
        source=lambda row: row.next_step_at if row.is_open and row.policy_id else None,
    )
    answer_due_at: datetime | None = field("the policy's limit; open after that, it is overdue", AT)
    notify_again_at: datetime | None = field(
        "when people are reminded again; null once it is closed",
        AT,
        source=lambda row: row.notify_again_at if row.is_open else None,
    )
    snoozed_until: datetime | None = field("out of the inbox until then; null if it is not snoozed")
    expires_at: datetime | None = field("when it expires; null if it never does")
    on_expiry: str | None = field("what happens when it expires; null if it never does")
    opened_at: datetime = field("when it was opened")
    closed_at: datetime | None = field("when it was closed; null while it is open")
    url: str = field(
        "its page",
        f"https://tenfour.example.org/escalations/{ID}/",
        # `complete_url` adds the server's address
        source=lambda row: f"/escalations/{row.id}/",
    )
    resolution: dict[str, Any] | None = field(
        "the answer, with who gave it and when; null before", source=resolution
    )
    outcome: OutcomeOut | None = field(
        "what happened to the task since the answer", None, given=True
    )
    version: int = field('changes with every update; the ETag is "v<version>"', 1)


class EscalationOut(
    EscalationFields, DiagnosisOut, Shape, example=dict.fromkeys(DiagnosisOut.model_fields)
):
    pass


class ResolveOut(Shape):
    escalation: EscalationOut = field(
        "the closed escalation",
        example_of(EscalationOut) | {"state": "resolved", "options": [], "version": 2},
    )
    task: dict[str, Any] | None = field("the task's current state")
    decision: dict[str, Any] = field("what the answer did", {"action": "fix", "resent_as": ID})
    warnings: list[str] = field("such as a secret in the text")


def escalation_out(escalation: Escalation) -> dict[str, Any]:
    return escalations_out([escalation])[0]


def escalations_out(escalations: Sequence[Escalation]) -> list[dict[str, Any]]:
    asked = [each.task_id for each in escalations if each.is_open and each.task_id]
    fixes = find_first_fixes(asked) if asked else {}
    since = answer_outcome.find_outcomes(escalations)
    records = {each.pk: load_record(each) for each in escalations}
    failures = {each.pk: last_failure(each, records[each.pk]) for each in escalations}
    chances = find_attempt_predictions(each.attempt_id for each in failures.values() if each)
    return [
        base_out(each, records[each.pk], since.get(each.pk), fix=fix)
        | diagnosis_out(failure, chances.get(failure.attempt_id) if failure else None, offered=fix)
        for each in escalations
        for failure in [failures[each.pk]]
        for fix in [fixes.get(each.task_id, "") if each.is_open and each.task_id else ""]
    ]


def evidence_of(escalation: Escalation, record: Record | None) -> dict[str, Any] | None:
    found = read_evidence(escalation, record.until(escalation)) if record else {}
    return dict.fromkeys(EvidenceOut.model_fields) | found if found else None


def base_out(
    escalation: Escalation, record: Record | None, since: TaskOutcome | None, *, fix: str
) -> dict[str, Any]:
    # `fix` is the suggested text of a fix.
    offered = list_options(escalation, record) if escalation.is_open else []
    return EscalationFields.write(
        escalation,
        message=render_escalation(escalation, record),
        options=[
            OptionOut.write(each, prompt_fill=fix if each.name == Answer.FIX else "")
            for each in offered
        ],
        evidence=evidence_of(escalation, record),
        outcome=OutcomeOut.write(since) if since else None,
    )


def last_failure(escalation: Escalation, record: Record | None) -> Failure | None:
    # Failures after the escalation do not count.
    attempts = record.until(escalation) if record else []
    found = (failure_of(attempt) for attempt in reversed(attempts))
    return next((failure for failure in found if failure), None)


class AssignIn(In, example={"user": "mara"}):
    user: str | None = Field(max_length=150, description="a username; null for no one")


class SnoozeIn(In, example={"until": AT}):
    until: AwareDatetime | None = Field(
        None, description="when it comes back, at most 90 days from now; null brings it back now"
    )


class CommentIn(In, example={"text": "The archive has been down since noon"}):
    text: str = Field(max_length=NOTE_LENGTH, description="the comment")
