"""Schemas of attempts and their failures, as they are read."""

from datetime import datetime
from typing import Any
from uuid import UUID

from ninja import Schema
from pydantic import ConfigDict, Field

from ledger.models import Attempt, Failure
from ledger.schemas.shared import AT, ID, Listed
from ledger.states import FailureType, Outcome

ATTEMPT: dict[str, Any] = {
    "id": ID,
    "task": ID,
    "number": 2,
    "worker_id": "ci-7",
    "outcome": "failure",
    "started_at": AT,
    "ended_at": AT,
    "lease_expires_at": AT,
    "deadline_at": AT,
    "heartbeat_at": AT,
    "heartbeats": 3,
    "progress": {"message": "wrote tests", "percent": 40},
    "decision": {"decision": "wait", "reason": "attempts_left"},
    "failure": {
        "type": "verification_failed",
        "code": "assertion",
        "message": "InvalidPlannerIdError not thrown for empty string",
        "details": "",
        "root_cause_guess": "",
        "suggested_fix": "",
        "verification": {"exit_code": 1, "output": "FAIL tests/PlannerId"},
        "files_modified": [],
        "learnings": [],
        "at": AT,
    },
}


class FailureOut(Schema):
    type: FailureType
    code: str
    message: str
    details: str
    root_cause_guess: str
    suggested_fix: str
    verification: dict[str, Any] | None
    files_modified: list[dict[str, Any]]
    learnings: list[str]
    at: datetime


class AttemptOut(Schema):
    id: UUID
    task: UUID
    number: int
    worker_id: str
    outcome: Outcome | None = Field(description="null while the attempt is running")
    started_at: datetime
    ended_at: datetime | None
    lease_expires_at: datetime
    deadline_at: datetime
    heartbeat_at: datetime | None
    heartbeats: int
    progress: dict[str, Any] | None
    decision: dict[str, Any] | None
    failure: FailureOut | None

    model_config = ConfigDict(json_schema_extra={"example": ATTEMPT})


class AttemptList(Listed):
    data: list[AttemptOut]

    model_config = ConfigDict(
        json_schema_extra={"example": {"data": [ATTEMPT], "next_cursor": None, "has_more": False}}
    )


def attempt_out(attempt: Attempt) -> dict[str, Any]:
    """Return the JSON object for an attempt whose failure is loaded."""
    failure: Failure | None = getattr(attempt, "failure", None)
    return {
        "id": attempt.id,
        "task": attempt.task_id,
        "number": attempt.number,
        "worker_id": attempt.worker_id,
        "outcome": attempt.outcome,
        "started_at": attempt.started_at,
        "ended_at": attempt.ended_at,
        "lease_expires_at": attempt.lease_expires_at,
        "deadline_at": attempt.deadline_at,
        "heartbeat_at": attempt.heartbeat_at,
        "heartbeats": attempt.heartbeats,
        "progress": attempt.progress,
        "decision": attempt.decision,
        "failure": failure_out(failure) if failure else None,
    }


def failure_out(failure: Failure) -> dict[str, Any]:
    return {name: getattr(failure, name) for name in FailureOut.model_fields}
