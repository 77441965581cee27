"""Schemas of tasks."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from ninja import Schema
from pydantic import AwareDatetime, ConfigDict, Field, StrictBool, StrictInt

from ledger.schemas.attempts import TraceOut, trace_out
from ledger.schemas.shapes import AGENT_ID, AT, ID
from ledger.schemas.shared import (
    AGENT_ID_OR_NAME,
    PLAN_ID_OR_REF,
    STATES,
    In,
    Listed,
    ListQuery,
    Registering,
)
from ledger.sql import Row
from ledger.states import EvidenceLevel, Proof, TaskState, Who, allowed_moves, proof_of
from ledger.tasks.spec import (
    LEASE_S,
    MAX_ATTEMPTS,
    MAX_NEEDS,
    MAX_TASKS_PER_CALL,
    TIMEOUT_S,
    TITLE_LENGTH,
)


class BackoffIn(In):
    base_delay_ms: StrictInt = Field(
        100, ge=0, le=86_400_000, description="the delay before the first retry, in milliseconds"
    )
    max_delay_ms: StrictInt = Field(
        30_000, ge=0, le=86_400_000, description="the longest delay before jitter, in milliseconds"
    )
    exponential_base: float = Field(
        2.0, ge=1, le=100, description="the factor from one delay to the next"
    )
    jitter: StrictBool = Field(
        True, description="true to multiply each delay by 0.5 to 1.5 at random"
    )


class TaskIn(Registering):
    agent: str = Field("", description="the agent's name; optional for an agent's own token")
    type: str = Field(description="a name for the kind of work, such as code or review")
    title: str = Field("", max_length=TITLE_LENGTH, description="what to do, in one line")
    payload: Any = Field(
        None, description="any JSON; known keys: action, files, context, verify, done"
    )
    priority: StrictInt = Field(
        0,
        description="higher goes first; 0 is usual, and the highest that an agent's own token can"
        " set",
    )
    needs: list[UUID] = Field(
        default_factory=list,
        max_length=MAX_NEEDS,
        description="tasks that must be done first, by id",
    )
    max_attempts: StrictInt | None = Field(
        None,
        ge=1,
        le=MAX_ATTEMPTS,
        description="attempts in a round; the setting's default if missing",
    )
    max_retries: StrictInt | None = Field(
        None, ge=1, le=MAX_ATTEMPTS, description="another name for max_attempts"
    )
    on_exhausted: Literal["escalate", "dead_letter"] | None = Field(
        None, description="what happens when no attempts are left"
    )
    evidence: EvidenceLevel | None = Field(
        None,
        description="what is asked for before it is done: 'record' nothing, 'ask' sends a claim "
        "without a check back to the agent once, 'require' asks a person to accept it without "
        "proof; as its plan or its project says if missing",
    )
    backoff: BackoffIn | None = Field(None, description="the delays before retries")
    lease_s: StrictInt | None = Field(
        None, ge=LEASE_S[0], le=LEASE_S[1], description="seconds of a lease; a heartbeat renews it"
    )
    timeout_s: StrictInt | None = Field(
        None, ge=TIMEOUT_S[0], le=TIMEOUT_S[1], description="maximum seconds of an attempt"
    )
    idempotent: StrictBool = Field(
        True, description="false to ask a person after a timeout instead of retrying"
    )
    non_retryable: StrictBool = Field(False, description="true to give the task one attempt only")

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "agent": "coder",
                "type": "code",
                "title": "Create InvalidPlannerIdError",
                "payload": {
                    "action": "Add the error and use it",
                    "verify": {"command": "npm test -- PlannerId", "timeout_s": 120},
                },
            }
        },
    )


class TaskPatch(In):
    priority: StrictInt | None = Field(None, description="higher goes first; 0 is usual")
    agent: str | None = Field(None, description="the name of the agent to move the task to")
    payload: Any = Field(None, description="the new payload; not while the task is running")
    max_attempts: StrictInt | None = Field(
        None,
        ge=1,
        le=MAX_ATTEMPTS,
        description="attempts in a round; moves attempt_limit by the difference, but not below "
        "the last attempt, or below the next one of a task that waits for it",
    )
    backoff: BackoffIn | None = Field(None, description="the delays before retries")
    evidence: EvidenceLevel | None = Field(
        None, description="what is asked for before it is done: record, ask, or require"
    )

    model_config = ConfigDict(json_schema_extra={"example": {"priority": 5}})


class TasksIn(In):
    tasks: list[TaskIn] = Field(
        min_length=1, max_length=MAX_TASKS_PER_CALL, description="the tasks to create"
    )

    model_config = ConfigDict(
        json_schema_extra={"example": {"tasks": [{"agent": "coder", "type": "code"}]}},
    )


class ManyQuery(Schema):
    atomic: bool = Field(True, description="true for all or none; false for each on its own")


class TaskQuery(ListQuery):
    state: str = Field("", description=STATES)
    agent: str = Field("", description=AGENT_ID_OR_NAME)
    type: str = Field("", description="the task's type")
    q: str = Field("", max_length=200, description="text in the title")
    plan: str = Field("", description=PLAN_ID_OR_REF)
    ref: str = Field("", description="a task's ref, such as 03-01:task-3")
    proof: str = Field("", description="one proof, or several separated by commas")
    updated_after: AwareDatetime | None = Field(
        None, description="only tasks updated after this time"
    )


TASK: dict[str, Any] = {
    "id": ID,
    "ref": None,
    "plan": None,
    "run": None,
    "title": "Create InvalidPlannerIdError",
    "type": "code",
    "priority": 0,
    "state": "running",
    "blocked_reason": None,
    "agent": "coder",
    "agent_id": AGENT_ID,
    "allowed_moves": ["done", "retry", "failed", "escalated", "blocked", "queued", "aborted"],
    "payload": {"action": "Add the error and use it"},
    "redactions": {},
    "result": None,
    "error": None,
    "proof": None,
    "needs": [],
    "skipped_needs": [],
    "unmet": 0,
    "max_attempts": 3,
    "attempt_limit": 3,
    "attempts": 1,
    "retry_count": 0,
    "on_exhausted": "dead_letter",
    "evidence": None,
    "backoff": {
        "base_delay_ms": 100,
        "max_delay_ms": 30_000,
        "exponential_base": 2.0,
        "jitter": True,
    },
    "lease_s": 300,
    "timeout_s": 3600,
    "idempotent": True,
    "current_attempt": ID,
    "abort_requested": False,
    "due_at": None,
    "escalation": None,
    "replay_of": None,
    "replaced_by": None,
    "trace": None,
    "created_at": AT,
    "updated_at": AT,
    "started_at": AT,
    "completed_at": None,
    "version": 2,
}


class SkippedNeed(Schema):
    id: UUID = Field(description="the skipped task's id")
    ref: str | None = Field(description="its ref within a plan; else null")
    title: str = Field(description="what it should have done")


class TaskOut(Schema):
    id: UUID = Field(description="the task's id")
    ref: str | None = Field(description="the ref within a plan, such as 03-01:task-3; else null")
    plan: UUID | None = Field(description="the plan's id; null outside a plan")
    run: int | None = Field(description="the plan's run; null outside a plan")
    title: str = Field(description="what to do, in one line")
    type: str = Field(description="a name for the kind of work")
    priority: int = Field(description="higher goes first; 0 is usual")
    state: TaskState = Field(description="the task's state")
    blocked_reason: str | None = Field(
        description="why it is blocked, such as dependency or breaker_open"
    )
    agent: str = Field(description="the agent's name")
    agent_id: UUID = Field(description="the agent's id")
    allowed_moves: list[str] = Field(description="states that the caller may move it to")
    payload: Any = Field(description="any JSON; known keys: action, files, context, verify, done")
    redactions: dict[str, int] = Field(description="number of masked secrets by kind")
    result: Any = Field(description="what the agent reported, or null")
    error: str | None = Field(description="the last error, or null")
    proof: Proof | None = Field(
        description="of a task that is done, what it rests on: 'proven' if its check is known to "
        "have passed on the files that were left, 'stale' if they changed after it passed, "
        "'claimed' if the agent says so, 'person' if a person accepted it; else null"
    )
    needs: list[UUID] = Field(description="the tasks that it needs, met or not")
    skipped_needs: list[SkippedNeed] = Field(
        description="needs that were skipped or given up: their results may be missing"
    )
    unmet: int = Field(description="number of unmet needs")
    max_attempts: int = Field(description="attempts in a round")
    attempt_limit: int = Field(description="the number of the last attempt that may run")
    attempts: int = Field(description="number of the latest attempt")
    retry_count: int = Field(description="failures in this round that used up an attempt")
    on_exhausted: str = Field(description="what happens when no attempts are left")
    evidence: EvidenceLevel | None = Field(
        description="what is asked for before it is done: record, ask, or require; null if its "
        "plan or its project says it"
    )
    backoff: BackoffIn = Field(description="the delays before retries")
    lease_s: int = Field(description="seconds of a lease; a heartbeat renews it")
    timeout_s: int = Field(description="maximum seconds of an attempt")
    idempotent: bool = Field(description="false if a person is asked after a timeout")
    current_attempt: UUID | None = Field(description="the running attempt, or null")
    abort_requested: bool = Field(description="true if the running attempt is asked to stop")
    due_at: datetime | None = Field(description="when a retry is due, or null")
    escalation: UUID | None = Field(description="its open escalation, or null")
    replay_of: UUID | None = Field(description="the failed task that it replays, or null")
    replaced_by: UUID | None = Field(description="the task that took its place, or null")
    trace: TraceOut | None = Field(
        description="the trace of its latest attempt; null if neither side traces"
    )
    created_at: datetime = Field(description="when it was created")
    updated_at: datetime = Field(description="when it was last changed")
    started_at: datetime | None = Field(description="when the first attempt started, or null")
    completed_at: datetime | None = Field(description="when it ended; null before")
    version: int = Field(description='changes with every update; the ETag is "v<version>"')

    model_config = ConfigDict(json_schema_extra={"example": TASK})


class TaskList(Listed):
    data: list[TaskOut] = Field(description="the rows of this page")

    model_config = ConfigDict(
        json_schema_extra={"example": {"data": [TASK], "next_cursor": None, "has_more": False}}
    )


class TasksOut(Schema):
    data: list[TaskOut] = Field(description="the new tasks, in the request's order")

    model_config = ConfigDict(json_schema_extra={"example": {"data": [TASK]}})


class EachOut(Schema):
    index: int = Field(description="position in the request")
    status: int = Field(description="201, or the problem's status")
    body: dict[str, Any] = Field(description="the task, or its problem")


class EachTaskOut(Schema):
    data: list[EachOut] = Field(description="one result per task, in the request's order")

    model_config = ConfigDict(
        json_schema_extra={"example": {"data": [{"index": 0, "status": 201, "body": TASK}]}}
    )


def task_out(row: Row, *, who: Who | None, escalation: UUID | None = None) -> dict[str, Any]:
    """Return the JSON object for a task's row, as `who` sees it; it has one shape everywhere."""
    return {
        "id": row["id"],
        "ref": row["ref"],
        "plan": row["plan_id"],
        "run": row["run"],
        "title": row["title"],
        "type": row["type"],
        "priority": row["priority"],
        "state": row["state"],
        "blocked_reason": row["blocked_reason"],
        "agent": row["agent_name"],
        "agent_id": row["agent_id"],
        "allowed_moves": allowed_moves(row["state"], who, blocked_reason=row["blocked_reason"]),
        "payload": row["payload"],
        "redactions": row["redactions"],
        "result": row["result"],
        "error": row["error"],
        "proof": proof_of(row["state"], row["proof"]),
        "needs": row["need_ids"],
        "skipped_needs": row["skipped_needs"] or [],
        "unmet": row["unmet"],
        "max_attempts": row["max_attempts"],
        "attempt_limit": row["attempt_limit"],
        "attempts": row["attempts"],
        "retry_count": row["retry_count"],
        "on_exhausted": row["on_exhausted"],
        "evidence": row["evidence"],
        "backoff": {
            "base_delay_ms": row["base_delay_ms"],
            "max_delay_ms": row["max_delay_ms"],
            "exponential_base": row["exponential_base"],
            "jitter": row["jitter"],
        },
        "lease_s": row["lease_s"],
        "timeout_s": row["timeout_s"],
        "idempotent": row["idempotent"],
        "current_attempt": row["current_attempt"],
        "abort_requested": row["abort_requested_at"] is not None,
        "due_at": row["due_at"],
        "escalation": escalation,
        "replay_of": row["replay_of_id"],
        "replaced_by": row["replaced_by_id"],
        # only rows of tasks that can have attempts come with it
        "trace": trace_out(row.get("latest_trace") or ""),
        "created_at": row["created_at"],
        "updated_at": row["updated_at"],
        "started_at": row["started_at"],
        "completed_at": row["completed_at"],
        "version": row["version"],
    }
