"""Schemas of claims, and of the retry context that they contain."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from ninja import Schema
from pydantic import Field, StrictBool, StrictInt

from ledger.database.sql import Row
from ledger.schemas.shapes import AT, ID, Part, Shape, field
from ledger.schemas.shared import In
from ledger.schemas.tasks import TaskOut, task_out
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


class ClaimIn(In, example={"worker_id": "ci-7", "limit": 1}):
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


class StartIn(In, example={"worker_id": "ci-7"}):
    worker_id: str = Field("", max_length=WORKER_LENGTH, description="the worker's name")


class ClaimedAttempt(Part, keyed=True):
    id: UUID = field("the attempt's id: send the report to it", source="attempt_id")
    number: int = field("the attempt's number within its task, from 1", 1, source="attempt_number")
    attempt_limit: int = field("the number of the last attempt that may run", 3)
    worker_id: str = field("the worker's name", "ci-7", source="attempt_worker_id")
    lease_expires_at: datetime = field(
        "when the lease ends without a heartbeat", source="attempt_lease_expires_at"
    )
    deadline_at: datetime = field(
        "when the attempt times out, heartbeats or not", source="attempt_deadline_at"
    )
    heartbeat_every_s: int = field(
        "how often to send a heartbeat, in seconds",
        100,
        source=lambda row: max(1, row["attempt_lease_s"] // 3),
    )
    resumed: bool = field("true if the worker held this attempt already")
    previous_progress: Any = field("the previous attempt's last progress", None, given=True)


PROMPT = render_task(
    title="Create InvalidPlannerIdError",
    type="code",
    payload={"action": "Add the error and use it"},
)


class ClaimedTask(Part):
    attempt: ClaimedAttempt = field("the attempt that this claim opened")
    task: TaskOut = field("the task")
    retry_context: str = field(
        "the previous failures and a person's instructions; empty if there are none"
    )
    prompt: str = field("the agent's system text, the retry context, and the task as XML", PROMPT)
    next_action: str = field(
        "what to do next, in one sentence", f"Do the task, then POST /v1/attempts/{ID}/result."
    )


class ClaimOut(Shape):
    data: list[ClaimedTask] = field(
        "the claimed tasks with their attempts; empty if there are none"
    )
    reason: str | None = field("why 'data' is empty, such as no_task or breaker_open")
    next_due_in_ms: int | None = field("milliseconds until the next retry is due")
    retry_after_s: int = field(
        "seconds to wait before the next claim; longer, the longer the agent has had no work"
    )
    waits_until: datetime | None = field(
        "with the reason agent_waits, when the limit of the agent's account resets; with "
        "budget_used, when the budget's day ends, or null"
    )
    pending_instructions: int = field("instructions that wait for the agent")
    made: UUID | None = field(
        "with ?claim=true, the new task; it is queued if 'data' is empty", default=None
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
    context = render_retry_context(
        history, attempt=row["attempt_number"], max_attempts=row["attempt_limit"]
    )
    first = "Read the retry context, then do" if context else "Do"
    verify = row["payload"].get("verify", {}) if isinstance(row["payload"], dict) else {}
    run = ", run the verify command" if verify.get("command") else ""
    return {
        "attempt": ClaimedAttempt.write(row, previous_progress=history.progress),
        "task": task_out(row, who=Who.AGENT),
        "retry_context": context,
        "prompt": render_prompt(row, context, system=system),
        "next_action": f"{first} the task{run}, then POST /v1/attempts/{row['attempt_id']}/result.",
    }
