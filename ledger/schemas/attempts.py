"""Schemas of attempts and their failures, as they are read."""

from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from ninja import Schema
from pydantic import ConfigDict, Field

from ledger.models import Attempt, Failure
from ledger.schemas.shapes import AT, ID
from ledger.states import FailureType, Outcome
from ledger.trace_context import TRACE_ID_LENGTH, build_trace_link

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
    "last_output": "collected 212 items\n",
    "decision": {"decision": "wait", "reason": "attempts_left"},
    "usage": {"input_tokens": 52_100, "output_tokens": 1_840, "cost_usd": 0.21},
    "checks": [
        {
            "command": "make test",
            "cwd": "/src/app",
            "exit_code": 1,
            "unknown": None,
            "seen_by": "client",
            "at": AT,
            "duration_s": 41.2,
            "tree": {"commit": "9c1f44a", "diff": None, "files": 0},
        }
    ],
    "tree": None,
    "trace": {
        "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
        "span_id": "00f067aa0ba902b7",
        "url": "https://traces.example.org/trace/4bf92f3577b34da6a3ce929d0e0e4736",
    },
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
    type: FailureType = Field(description="the kind of failure")
    code: str = Field(description="a short code, such as permission_denied or assertion")
    message: str = Field(description="the error in one line")
    details: str = Field(description="the error's details, with secrets masked")
    root_cause_guess: str = Field(description="what the agent thinks the cause is")
    suggested_fix: str = Field(description="what the next attempt could do differently")
    verification: dict[str, Any] | None = Field(
        description="the verify command's exit code and output, or null"
    )
    files_modified: list[dict[str, Any]] = Field(
        description="files that the attempt changed: path, status, lines_changed"
    )
    learnings: list[str] = Field(description="what the attempt learned")
    at: datetime = Field(description="when it was recorded")


class TraceOut(Schema):
    trace_id: str = Field(description="the trace's id, as 32 hexadecimal digits")
    span_id: str = Field(description="the id of the span that claimed the attempt")
    url: str | None = Field(
        description="where to look at it, as TENFOUR_TRACE_URL says; null without that setting"
    )


class AttemptOut(Schema):
    id: UUID = Field(description="the attempt's id")
    task: UUID = Field(description="the task's id")
    number: int = Field(description="the attempt's number within its task, from 1")
    worker_id: str = Field(description="the worker's name")
    outcome: Outcome | None = Field(description="null while the attempt is running")
    started_at: datetime = Field(description="when it started")
    ended_at: datetime | None = Field(description="when it ended; null while it is running")
    lease_expires_at: datetime = Field(description="when the lease ends without a heartbeat")
    deadline_at: datetime = Field(description="when the attempt times out, heartbeats or not")
    heartbeat_at: datetime | None = Field(description="the last heartbeat; null if there was none")
    heartbeats: int = Field(description="number of heartbeats")
    progress: dict[str, Any] | None = Field(description="the last progress that the agent reported")
    last_output: str = Field(
        description="the last lines of the command's output, as heartbeats sent them; at most 4 KiB"
    )
    decision: dict[str, Any] | None = Field(
        description="the decision that followed the report; null before"
    )
    usage: dict[str, Any] | None = Field(
        description="the tokens and the cost that its report named: input_tokens, cached_tokens, "
        "output_tokens, cost_usd, and model; null without them"
    )
    checks: list[dict[str, Any]] = Field(
        description="how the commands ended that checked its work, oldest first: command, cwd, "
        "exit_code or why it is unknown, seen_by, at, duration_s, and tree"
    )
    tree: dict[str, Any] | None = Field(
        description="the files that it left: commit, diff, and files; null if they were not read"
    )
    trace: TraceOut | None = Field(
        description="the trace that the claim belonged to; null if neither side traces"
    )
    failure: FailureOut | None = Field(description="what went wrong; null if nothing did")

    model_config = ConfigDict(json_schema_extra={"example": ATTEMPT})


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
        "last_output": attempt.last_output,
        "decision": attempt.decision,
        "usage": attempt.usage,
        "checks": attempt.checks or [],
        "tree": attempt.tree,
        "trace": trace_out(attempt.trace_id + attempt.span_id),
        "failure": failure_out(failure) if failure else None,
    }


def trace_out(ids: str) -> dict[str, Any] | None:
    """Return the JSON object for a trace's id followed by a span's; None for an empty string."""
    if not ids:
        return None
    trace_id, span_id = ids[:TRACE_ID_LENGTH], ids[TRACE_ID_LENGTH:]
    url = build_trace_link(settings.TENFOUR["TRACE_URL"], trace_id, span_id)
    return {"trace_id": trace_id, "span_id": span_id, "url": url or None}


def failure_out(failure: Failure) -> dict[str, Any]:
    return {name: getattr(failure, name) for name in FailureOut.model_fields}
