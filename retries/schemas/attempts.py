"""Schemas of what an agent sends about an attempt, and of the decisions it gets."""

from datetime import datetime
from typing import Any, Literal

from ninja import Schema
from pydantic import ConfigDict, Field, StrictBool, StrictInt

from ledger.schemas.shared import AT, ID, In
from ledger.states import FailureType
from ledger.tasks.spec import LEASE_S
from retries.attempts.exit_codes import ExitOf
from retries.attempts.questions import QUESTION_LENGTH
from retries.attempts.report_fields import MAX_RETRY_AFTER_S


class HeartbeatIn(In):
    progress: dict[str, Any] | None = Field(
        None, description="any object, usually with message, percent, and details"
    )
    extend_s: StrictInt | None = Field(None, ge=LEASE_S[0], le=LEASE_S[1])

    model_config = ConfigDict(
        json_schema_extra={"example": {"progress": {"message": "wrote tests", "percent": 40}}},
    )


class HeartbeatOut(Schema):
    lease_expires_at: datetime
    deadline_at: datetime
    abort_requested: bool = Field(description="true if the agent should stop and report")
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
    output: str = Field("", max_length=4_194_304)


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
    reclaim: StrictBool = Field(
        False, description="open the next attempt at once if a retry is due"
    )

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
    of: ExitOf = Field(
        ExitOf.COMMAND,
        description="whose exit code it is: 'command' for the agent's own program, which verifies "
        "nothing; 'verification' for the task's verify command",
    )
    reclaim: bool = Field(False, description="open the next attempt at once if a retry is due")


class DecisionOut(Schema):
    decision: str = Field(description="done, wait, retry, escalated, blocked, failed, or aborted")
    reason: str
    task: dict[str, Any]
    verdict: dict[str, Any] | None = None
    not_before: datetime | None = None
    delay_s: float | None = None
    escalation: dict[str, Any] | None = None
    retry: dict[str, Any] | None = Field(
        None, description="the next attempt, if 'reclaim' opened it"
    )
    retry_context: str | None = Field(
        None, description="with 'retry', the retry context of the next attempt"
    )
    prompt: str | None = Field(None, description="with 'retry', the prompt of the next attempt")
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


class ReleaseIn(In):
    reason: Literal["shutdown", "wrong_agent", "user_interrupt"] = "shutdown"
    note: str = Field("", max_length=2000)

    model_config = ConfigDict(json_schema_extra={"example": {"reason": "shutdown"}})


class ChoiceIn(In):
    name: str = Field(min_length=1, max_length=64)
    title: str = Field("", max_length=200)
    description: str = Field("", max_length=500)


class AskIn(In):
    question: str = Field(min_length=1, max_length=QUESTION_LENGTH)
    options: list[ChoiceIn] = Field(
        default_factory=list, max_length=10, description="answers that a person can choose from"
    )
    response_schema: dict[str, Any] | None = Field(
        None,
        description="a JSON Schema for the answer: a flat object whose properties are strings, "
        "numbers, integers, or booleans",
    )
    severity: Literal["low", "normal", "high"] = "normal"
    client_state: Any = Field(
        None, description="any value, at most 8 KiB, returned unchanged with the answer"
    )
    expires_at: datetime | None = Field(
        None,
        description="when the question expires; requires 'on_expiry', and leaves a person at least "
        "TENFOUR_QUESTION_MIN_SECONDS (300) to answer",
    )
    on_expiry: Literal["retry", "fail"] | None = Field(
        None, description="what to do with the task if there is no answer by then"
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
