"""Schemas of claims, and of the retry context that they contain."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from ninja import Schema
from pydantic import ConfigDict, Field, StrictBool, StrictInt

from ledger.schemas.shapes import AT, ID
from ledger.schemas.shared import In
from ledger.schemas.tasks import TASK, TaskOut, task_out
from ledger.sql import Row
from ledger.states import Who
from ledger.tasks.spec import LEASE_S
from retries.claims import MAX_TASKS, WORKER_LENGTH, ClaimResult
from retries.retry_context.block import (
    BUDGET,
    LEAST_BUDGET,
    MOST_BUDGET,
    History,
    render_retry_context,
)
from retries.retry_context.failure_elements import FailureRecord
from retries.retry_context.history import EMPTY_HISTORY, render_prompt
from retries.retry_context.prompt import render_task


class ClaimIn(In):
    worker_id: str = Field(
        "", max_length=WORKER_LENGTH, description="a name for the worker, which lets it resume"
    )
    task: UUID | None = Field(None, description="claim only this task")
    limit: StrictInt = Field(1, ge=1, le=MAX_TASKS, description="maximum number of tasks")
    resume: StrictBool | None = Field(
        None,
        description="return the attempts that the worker still holds; the default if 'limit' is 1 "
        "and 'worker_id' is set",
    )
    lease_s: StrictInt | None = Field(
        None, ge=LEASE_S[0], le=LEASE_S[1], description="seconds of a lease; a heartbeat renews it"
    )

    model_config = ConfigDict(json_schema_extra={"example": {"worker_id": "ci-7", "limit": 1}})


class StartIn(In):
    worker_id: str = Field("", max_length=WORKER_LENGTH, description="the worker's name")

    model_config = ConfigDict(json_schema_extra={"example": {"worker_id": "ci-7"}})


class ClaimedAttempt(Schema):
    id: UUID = Field(description="the attempt's id: send the report to it")
    number: int = Field(description="the attempt's number within its task, from 1")
    attempt_limit: int = Field(description="the number of the last attempt that may run")
    worker_id: str = Field(description="the worker's name")
    lease_expires_at: datetime = Field(description="when the lease ends without a heartbeat")
    deadline_at: datetime = Field(description="when the attempt times out, heartbeats or not")
    heartbeat_every_s: int = Field(description="how often to send a heartbeat, in seconds")
    resumed: bool = Field(description="true if the worker held this attempt already")
    previous_progress: Any = Field(description="the previous attempt's last progress")


class ClaimedTask(Schema):
    attempt: ClaimedAttempt = Field(description="the attempt that this claim opened")
    task: TaskOut = Field(description="the task")
    retry_context: str = Field(
        description="the previous failures and a person's instructions; empty if there are none"
    )
    prompt: str = Field(
        description="the agent's system text, the retry context, and the task as XML"
    )
    next_action: str = Field(description="what to do next, in one sentence")


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
    data: list[ClaimedTask] = Field(
        description="the claimed tasks with their attempts; empty if there are none"
    )
    reason: str | None = Field(description="why 'data' is empty, such as no_task or breaker_open")
    next_due_in_ms: int | None = Field(description="milliseconds until the next retry is due")
    retry_after_s: int = Field(description="seconds to wait before the next claim")
    waits_until: datetime | None = Field(
        description="with the reason agent_waits, when the limit of the agent's account resets"
    )
    pending_instructions: int = Field(description="instructions that wait for the agent")
    made: UUID | None = Field(
        None, description="with ?claim=true, the new task; it is queued if 'data' is empty"
    )

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "data": [CLAIMED],
                "reason": None,
                "next_due_in_ms": None,
                "retry_after_s": 0,
                "waits_until": None,
                "pending_instructions": 0,
            }
        }
    )


class BudgetQuery(Schema):
    budget: int = Field(
        BUDGET,
        ge=LEAST_BUDGET,
        le=MOST_BUDGET,
        description="maximum characters of the retry context",
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


def claim_out(
    found: ClaimResult, *, histories: Mapping[UUID, History], now: datetime
) -> dict[str, Any]:
    """Return the JSON object for a claim; `histories` has those of retried tasks."""
    due = found.next_due_at
    return {
        "data": [
            claimed_out(row, histories.get(row["id"], EMPTY_HISTORY), system=found.system_text)
            for row in found.rows
        ],
        "reason": found.reason,
        "next_due_in_ms": max(0, round((due - now).total_seconds() * 1000)) if due else None,
        "retry_after_s": found.retry_after_s,
        "waits_until": found.waits_until,
        "pending_instructions": found.pending_instructions,
    }


def claimed_out(row: Row, history: History, *, system: str) -> dict[str, Any]:
    attempt_id, number, limit = row["attempt_id"], row["attempt_number"], row["attempt_limit"]
    context = render_retry_context(history, attempt=number, max_attempts=limit)
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
            "previous_progress": history.progress,
        },
        "task": task_out(row, who=Who.AGENT),
        "retry_context": context,
        "prompt": render_prompt(row, context, system=system),
        "next_action": f"{first} the task{run}, then POST /v1/attempts/{attempt_id}/result.",
    }
