"""The shapes of claims, attempts, dead letters and escalations in the API."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from ninja import Schema
from pydantic import AwareDatetime, ConfigDict, Field, StrictBool, StrictInt

from ledger.models import DeadLetter
from ledger.schemas.shared import AGENT_ID, AT, ID, In, Listed, PageQuery
from ledger.schemas.tasks import TASK, TaskOut, task_out
from ledger.sql import Row
from ledger.states import FailureType, TaskState, Who, urgency_of
from ledger.tasks.spec import LEASE_S
from retries.attempts.questions import QUESTION_LENGTH
from retries.attempts.report_fields import MAX_RETRY_AFTER_S
from retries.claims import MAX_TASKS, WORKER_LENGTH, ClaimResult
from retries.escalations import answer_outcome
from retries.escalations.answer_outcome import Aftermath
from retries.escalations.choices import FIX_LENGTH, NOTE_LENGTH
from retries.escalations.lifecycle import resolution
from retries.escalations.options import Option, options
from retries.escalations.record import record_of, told
from retries.escalations.response_schema import MOST_FIELDS
from retries.failures.suggestions import find_first_fixes
from retries.models import Escalation
from retries.retry_context.block import (
    BUDGET,
    LEAST_BUDGET,
    MOST_BUDGET,
    FailureRecord,
    History,
    render_retry_context,
)
from retries.retry_context.history import EMPTY_HISTORY, render_prompt
from retries.retry_context.prompt import render_task
from retries.states import Answer, EscalationState, Reason


class EscalationQuery(PageQuery):
    state: Literal["", "open", "resolved", "expired", "withdrawn"] = ""
    reason: str = ""
    plan: UUID | None = None
    assignee: str = Field("", description="the name that somebody signs in with")


class ResolveIn(In):
    action: Literal["retry", "fix", "skip", "abort", "answer"] | None = None
    instruction: str = Field(
        "", max_length=FIX_LENGTH, description="the words of a fix, or of an answer to a question"
    )
    response: dict[str, Any] | None = Field(
        None,
        max_length=MOST_FIELDS,
        description="with 'answer': the values that the question's 'response_schema' asks for",
    )
    note: str = Field("", max_length=NOTE_LENGTH)
    dependents: Literal["continue", "block", "skip"] = Field(
        "continue", description="with 'skip': what becomes of the tasks that depend on it"
    )
    text: str = Field(
        "", max_length=FIX_LENGTH + 10, description="instead: one line, such as 'fix: trim first'"
    )
    version: StrictInt | None = Field(
        None, description="the version that was read; If-Match says the same"
    )

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"action": "fix", "instruction": "Run `openspec --version` and report it"}
        },
    )


OPTION = {
    "name": "fix",
    "title": "Send with other words",
    "description": "coder gets your words first of all, and is chased until it answers.",
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
    "agent": AGENT_ID,
    "agent_name": "coder",
    "raised_by": {"type": "system", "name": "idle_check"},
    "question": None,
    "choices": [],
    "response_schema": None,
    "client_state": None,
    "options": [OPTION],
    "assignee": None,
    "notify_again_at": AT,
    "expires_at": None,
    "on_expiry": None,
    "opened_at": AT,
    "closed_at": None,
    "url": f"https://tenfour.example.org/escalations/{ID}/",
    "resolution": None,
    "outcome": None,
    "version": 1,
}


class WayOut(Schema):
    name: str
    title: str


class OptionOut(Schema):
    name: str
    title: str
    description: str
    requires_text: bool
    prompt_fill: str = Field(
        description="with 'fix': what may help, to begin the words with; empty where none is known"
    )
    confirm: bool
    dependents: list[WayOut] = Field(
        description="with 'skip', where tasks depend on it: what can become of them"
    )


class OutcomeOut(Schema):
    task: UUID = Field(description="another one where it was restarted or replayed since")
    run: int | None
    state: TaskState
    attempts: int
    attempt_limit: int
    asked_again: int | None = Field(
        description="the attempt after which it needed a person again, if it did"
    )


class EscalationOut(Schema):
    id: UUID
    state: EscalationState
    reason: str
    severity: str
    title: str
    message: str = Field(description="the whole story, as Markdown for a task")
    task: UUID | None
    plan: UUID | None
    instruction: UUID | None
    agent: UUID
    agent_name: str
    raised_by: dict[str, str]
    question: str | None = Field(description="what its agent or its plan asks, where one asks")
    choices: list[dict[str, str]] = Field(description="answers that its agent offers")
    response_schema: dict[str, Any] | None
    client_state: Any = Field(description="its asker's own, as it was given")
    options: list[OptionOut] = Field(description="what can be answered; none once it is closed")
    assignee: str | None
    notify_again_at: datetime | None
    expires_at: datetime | None
    on_expiry: str | None
    opened_at: datetime
    closed_at: datetime | None
    url: str
    resolution: dict[str, Any] | None
    outcome: OutcomeOut | None = Field(
        description="what came of it once it was closed, for a task: where that stands now"
    )
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
    task: dict[str, Any] | None = Field(description="where its task stands now")
    decision: dict[str, Any] = Field(description="what was done")

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "escalation": ESCALATION | {"state": "resolved", "options": [], "version": 2},
                "task": None,
                "decision": {"action": "fix", "resent_as": ID},
            }
        }
    )


def title(escalation: Escalation) -> str:
    """One line that says what happened."""
    if task := escalation.task:
        if escalation.reason == Reason.MAX_RETRIES_EXCEEDED:
            return f"{task} failed {escalation.attempts} of {escalation.attempt_limit} attempts"
        return f"{task}: {escalation.reason.replace('_', ' ')}"
    row = escalation.instruction
    times = row.deliveries if row else 0
    last = f", the last time as {urgency_of(row.retry_count).upper()}" if row else ""
    said = f"after {times} deliveries{last}" if times != 1 else "after one delivery"
    return f"{escalation.agent.name} has not acknowledged an instruction {said}"


def escalation_out(escalation: Escalation) -> dict[str, Any]:
    """The JSON object of an escalation, with its agent and what it is about loaded."""
    return escalations_out([escalation])[0]


def escalations_out(escalations: Sequence[Escalation]) -> list[dict[str, Any]]:
    asked = [each.task_id for each in escalations if each.is_open and each.task_id]
    fixes = find_first_fixes(asked) if asked else {}
    since = answer_outcome.of(escalations)
    return [
        told_out(each, fix=fixes.get(each.task_id, "") if each.task_id else "")
        | {"outcome": outcome(since.get(each.pk))}
        for each in escalations
    ]


def outcome(since: Aftermath | None) -> dict[str, Any] | None:
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


def told_out(escalation: Escalation, *, fix: str) -> dict[str, Any]:
    """`fix` is what stands in the field of its fix from the start."""
    is_open = escalation.is_open
    record = record_of(escalation)
    offered = options(escalation, record) if is_open else []
    return {
        "id": escalation.id,
        "state": escalation.state,
        "reason": escalation.reason,
        "severity": escalation.severity,
        "title": title(escalation),
        "message": told(escalation, record),
        "task": escalation.task_id,
        "plan": escalation.task.plan_id if escalation.task else None,
        "instruction": escalation.instruction_id,
        "agent": escalation.agent_id,
        "agent_name": escalation.agent.name,
        "raised_by": {"type": escalation.raised_by_type, "name": escalation.raised_by_name},
        "question": escalation.question or None,
        "choices": escalation.choices,
        "response_schema": escalation.response_schema,
        "client_state": escalation.client_state,
        "options": [option_out(each, fix=fix) for each in offered],
        "assignee": escalation.assignee.get_username() if escalation.assignee else None,
        "notify_again_at": escalation.notify_again_at if is_open else None,
        "expires_at": escalation.expires_at,
        "on_expiry": escalation.on_expiry,
        "opened_at": escalation.opened_at,
        "closed_at": escalation.closed_at,
        "url": f"/escalations/{escalation.id}/",  # behind the address of this Tenfour
        "resolution": resolution(escalation),
        "version": escalation.version,
    }


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
    user: str | None = Field(max_length=150, description="who signs in so; null: nobody")

    model_config = ConfigDict(json_schema_extra={"example": {"user": "mara"}})


class CommentIn(In):
    text: str = Field(max_length=NOTE_LENGTH)

    model_config = ConfigDict(
        json_schema_extra={"example": {"text": "The archive is down since noon"}}
    )


class ChoiceIn(In):
    name: str = Field(min_length=1, max_length=64)
    title: str = Field("", max_length=200)
    description: str = Field("", max_length=500)


class AskIn(In):
    question: str = Field(min_length=1, max_length=QUESTION_LENGTH)
    options: list[ChoiceIn] = Field(
        default_factory=list, max_length=10, description="answers that a person can pick"
    )
    response_schema: dict[str, Any] | None = Field(
        None,
        description="the form that the answer must have: a JSON Schema of a flat object, its "
        "properties of type string, number, integer or boolean",
    )
    severity: Literal["low", "normal", "high"] = "normal"
    client_state: Any = Field(None, description="kept and given back as it is, at most 8 KiB")
    expires_at: datetime | None = Field(None, description="with 'on_expiry'")
    on_expiry: Literal["retry", "skip", "abort", "fail"] | None = Field(
        None, description="what becomes of the task where nobody answers by then"
    )

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "question": "Drop the table old_invoices? It holds 2 million rows.",
                "options": [{"name": "yes", "title": "Drop it"}, {"name": "no"}],
                "severity": "high",
            }
        },
    )


# ---- claims and attempts


class ClaimIn(In):
    worker_id: str = Field("", max_length=WORKER_LENGTH, description="who asks, for resuming")
    task: UUID | None = Field(None, description="this one and no other")
    limit: StrictInt = Field(1, ge=1, le=MAX_TASKS)
    resume: StrictBool | None = Field(
        None, description="give back what the worker holds; the default for one task and a worker"
    )
    lease_s: StrictInt | None = Field(None, ge=LEASE_S[0], le=LEASE_S[1])

    model_config = ConfigDict(json_schema_extra={"example": {"worker_id": "ci-7", "limit": 1}})


class StartIn(In):
    worker_id: str = Field("", max_length=WORKER_LENGTH)

    model_config = ConfigDict(json_schema_extra={"example": {"worker_id": "ci-7"}})


class ClaimedAttempt(Schema):
    id: UUID
    number: int
    attempt_limit: int
    worker_id: str
    lease_expires_at: datetime
    deadline_at: datetime
    heartbeat_every_s: int
    resumed: bool
    previous_progress: Any = Field(description="what the attempt before said last")


class ClaimedTask(Schema):
    attempt: ClaimedAttempt
    task: TaskOut
    retry_context: str = Field(
        description="what went wrong before, and a person's words; empty where there is neither"
    )
    prompt: str = Field(
        description="the agent's system text, the retry context, then the task as XML"
    )
    next_action: str


CLAIMED: dict[str, Any] = {
    "attempt": {
        "id": ID,
        "number": 1,
        "attempt_limit": 3,
        "worker_id": "ci-7",
        "lease_expires_at": AT,
        "deadline_at": AT,
        "heartbeat_every_s": 100,
        "resumed": False,
        "previous_progress": None,
    },
    "task": TASK,
    "retry_context": "",
    "prompt": render_task(title=TASK["title"], type=TASK["type"], payload=TASK["payload"]),
    "next_action": f"Do the task, then POST /v1/attempts/{ID}/result.",
}


class ClaimOut(Schema):
    data: list[ClaimedTask]
    reason: str | None = Field(description="why there is nothing: no_task, breaker_open, …")
    next_due_in_ms: int | None = Field(description="when the next retry comes due")
    retry_after_s: int
    pending_instructions: int
    made: UUID | None = Field(
        None, description="with ?claim=true: the new task, which waits where nothing is in 'data'"
    )

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "data": [CLAIMED],
                "reason": None,
                "next_due_in_ms": None,
                "retry_after_s": 0,
                "pending_instructions": 0,
            }
        }
    )


def claim_out(
    found: ClaimResult, *, pasts: Mapping[UUID, History], now: datetime
) -> dict[str, Any]:
    """The JSON object of a claim; `pasts` has what is known of tasks that are tried again."""
    due = found.next_due_at
    return {
        "data": [
            claimed_out(row, pasts.get(row["id"], EMPTY_HISTORY), system=found.system_text)
            for row in found.rows
        ],
        "reason": found.reason,
        "next_due_in_ms": max(0, round((due - now).total_seconds() * 1000)) if due else None,
        "retry_after_s": found.retry_after_s,
        "pending_instructions": found.pending_instructions,
    }


def claimed_out(row: Row, past: History, *, system: str) -> dict[str, Any]:
    attempt_id, number, limit = row["attempt_id"], row["attempt_number"], row["attempt_limit"]
    context = render_retry_context(past, attempt=number, max_attempts=limit)
    first = "Read the retry context, then do" if context else "Do"
    verify = row["payload"].get("verify", {}) if isinstance(row["payload"], dict) else {}
    run = ", run the verify command" if verify.get("command") else ""
    return {
        "attempt": {
            "id": attempt_id,
            "number": number,
            "attempt_limit": limit,
            "worker_id": row["attempt_worker_id"],
            "lease_expires_at": row["attempt_lease_expires_at"],
            "deadline_at": row["attempt_deadline_at"],
            "heartbeat_every_s": max(1, row["attempt_lease_s"] // 3),
            "resumed": row["resumed"],
            "previous_progress": past.progress,
        },
        "task": task_out(row, who=Who.AGENT),
        "retry_context": context,
        "prompt": render_prompt(row, context, system=system),
        "next_action": f"{first} the task{run}, then POST /v1/attempts/{attempt_id}/result.",
    }


class HeartbeatIn(In):
    progress: dict[str, Any] | None = Field(None, description="message, percent, details")
    extend_s: StrictInt | None = Field(None, ge=LEASE_S[0], le=LEASE_S[1])

    model_config = ConfigDict(
        json_schema_extra={"example": {"progress": {"message": "wrote tests", "percent": 40}}},
    )


class HeartbeatOut(Schema):
    lease_expires_at: datetime
    deadline_at: datetime
    abort_requested: bool = Field(description="stop, and report: the task is to end")
    pending_instructions: int

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "lease_expires_at": AT,
                "deadline_at": AT,
                "abort_requested": False,
                "pending_instructions": 0,
            }
        }
    )


class VerificationIn(In):
    command: str = Field("", max_length=4096)
    exit_code: StrictInt = Field(ge=-(2**31), le=2**31 - 1)
    duration_s: float | None = Field(None, ge=0)
    output: str = Field("", max_length=262_144)


class FailureIn(In):
    type: FailureType | None = None
    code: str = Field("", max_length=64)
    message: str = ""
    details: str = ""
    root_cause_guess: str = ""
    suggested_fix: str = ""
    non_retryable: StrictBool = False
    retry_after_s: StrictInt | None = Field(None, ge=0, le=MAX_RETRY_AFTER_S)


class FileIn(In):
    path: str = Field(max_length=1024)
    status: str = Field("modified", max_length=64)
    lines_changed: StrictInt | None = Field(None, ge=0)


class ResultIn(In):
    status: Literal["success", "failure", "blocked"]
    summary: str = ""
    verification: VerificationIn | None = None
    failure: FailureIn | None = None
    files_modified: list[FileIn] = Field(default_factory=list, max_length=500)
    learnings: list[str] = Field(default_factory=list, max_length=100)
    result: Any = None
    reclaim: StrictBool = Field(False, description="go on with the next attempt at once")

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "status": "failure",
                "verification": {"command": "npm test", "exit_code": 1, "output": "1 failed"},
                "failure": {"type": "verification_failed", "message": "1 test failed"},
            }
        },
    )


class ExitQuery(Schema):
    reclaim: bool = False


class DecisionOut(Schema):
    decision: str = Field(description="done, wait, retry, escalated, blocked, failed or aborted")
    reason: str
    task: dict[str, Any]
    verdict: dict[str, Any] | None = None
    not_before: datetime | None = None
    delay_s: float | None = None
    escalation: dict[str, Any] | None = None
    retry: dict[str, Any] | None = Field(None, description="the next attempt, with 'reclaim'")
    retry_context: str | None = Field(None, description="with 'retry': what went wrong before")
    prompt: str | None = Field(None, description="with 'retry': what the next attempt is to do")
    next_action: str | None = None

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "decision": "done",
                "reason": "verified",
                "task": {"id": ID, "state": "done", "version": 3},
            }
        }
    )


class BudgetQuery(Schema):
    budget: int = Field(
        BUDGET, ge=LEAST_BUDGET, le=MOST_BUDGET, description="characters of the retry context"
    )


EXAMPLE_FAILURE = FailureRecord(
    attempt=1,
    at=datetime.fromisoformat(AT),
    type="verification_failed",
    code="assertion",
    message="1 passed, 2 failed",
    verification={"command": "npm test -- PlannerId", "exit_code": 1, "output": "FAIL …"},
    suggested_fix="Check for the empty string",
    files=[{"path": "src/domain/PlannerId.ts", "status": "partially_modified"}],
    learnings=["uuid.validate() returns false for an empty string, it does not throw"],
)
RETRY_CONTEXT = render_retry_context(History(failures=[EXAMPLE_FAILURE]), attempt=2, max_attempts=3)


class ReleaseIn(In):
    reason: Literal["shutdown", "wrong_agent", "user_interrupt"] = "shutdown"
    note: str = Field("", max_length=2000)

    model_config = ConfigDict(json_schema_extra={"example": {"reason": "shutdown"}})


REASON_BYTES = 500


class TripIn(In):
    reason: str = Field("", max_length=500, description="why, for those who wonder")

    model_config = ConfigDict(json_schema_extra={"example": {"reason": "it deletes its own tests"}})


class AbortIn(In):
    reason: str = Field("", max_length=2000)

    model_config = ConfigDict(json_schema_extra={"example": {"reason": "no longer needed"}})


# ---- plans


class RestartIn(In):
    carry_over: AwareDatetime | None = Field(
        None, description="what was begun at or after this time goes on with its attempts"
    )

    model_config = ConfigDict(json_schema_extra={"example": {"carry_over": "2026-11-21T12:00:00Z"}})


# ---- dead letters


DEAD_LETTER: dict[str, Any] = {
    "id": ID,
    "task": ID,
    "agent": "coder",
    "type": "code",
    "payload": {"action": "Add the error and use it"},
    "error": "1 test failed",
    "reason": "max_retries_exceeded",
    "retry_count": 3,
    "failed_at": AT,
    "closed_at": None,
    "closed_as": None,
    "closed_by": None,
    "note": "",
    "replayed_as": None,
}


class DeadLetterQuery(PageQuery):
    state: Literal["", "open", "replayed", "dismissed"] = ""
    agent: str = ""
    type: str = ""


class DeadLetterOut(Schema):
    id: UUID
    task: UUID
    agent: str
    type: str
    payload: Any
    error: str
    reason: str
    retry_count: int
    failed_at: datetime
    closed_at: datetime | None
    closed_as: str | None
    closed_by: str | None
    note: str
    replayed_as: UUID | None

    model_config = ConfigDict(json_schema_extra={"example": DEAD_LETTER})


class DeadLetterList(Listed):
    data: list[DeadLetterOut]

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"data": [DEAD_LETTER], "next_cursor": None, "has_more": False}
        }
    )


class DismissIn(In):
    note: str = Field("", max_length=2000)
    dependents: Literal["continue", "block", "skip"] = "continue"

    model_config = ConfigDict(json_schema_extra={"example": {"note": "not needed any more"}})


class BulkIn(In):
    action: Literal["replay", "dismiss"]
    ids: list[UUID] | None = Field(None, max_length=100)
    agent: str = Field("", description="without ids: everything open of this agent")
    type: str = Field("", description="without ids: everything open of this type")
    note: str = Field("", max_length=2000)
    dependents: Literal["continue", "block", "skip"] = "continue"
    dry_run: StrictBool = Field(False, description="only say how many there are")

    model_config = ConfigDict(
        json_schema_extra={"example": {"action": "replay", "agent": "coder", "dry_run": True}},
    )


class BulkOut(Schema):
    matched: int = Field(description="how many were open")
    changed: int = Field(description="how many were really replayed or dismissed")
    ids: list[UUID]

    model_config = ConfigDict(
        json_schema_extra={"example": {"matched": 2, "changed": 2, "ids": [ID]}}
    )


def dead_letter_out(letter: DeadLetter) -> dict[str, Any]:
    return {
        "id": letter.id,
        "task": letter.task_id,
        "agent": letter.agent.name,
        "type": letter.type,
        "payload": letter.payload,
        "error": letter.error,
        "reason": letter.reason,
        "retry_count": letter.retry_count,
        "failed_at": letter.failed_at,
        "closed_at": letter.closed_at,
        "closed_as": letter.closed_as,
        "closed_by": letter.closed_by_name or None,
        "note": letter.note,
        "replayed_as": letter.replayed_as_id,
    }
