"""Schemas of tasks."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from ninja import Schema
from pydantic import AwareDatetime, ConfigDict, Field, StrictBool, StrictInt

from ledger.schemas.shared import (
    AGENT_ID,
    AGENT_ID_OR_NAME,
    AT,
    ID,
    PLAN_ID_OR_REF,
    STATES,
    In,
    Listed,
    PageQuery,
    Registering,
)
from ledger.sql import Row
from ledger.states import TaskState, Who, allowed_moves
from ledger.tasks.spec import (
    LEASE_S,
    MAX_ATTEMPTS,
    MAX_NEEDS,
    MAX_TASKS_PER_CALL,
    TIMEOUT_S,
    TITLE_LENGTH,
)


class BackoffIn(In):
    base_delay_ms: StrictInt = Field(100, ge=0, le=86_400_000)
    max_delay_ms: StrictInt = Field(30_000, ge=0, le=86_400_000)
    exponential_base: float = Field(2.0, ge=1, le=100)
    jitter: StrictBool = True


class TaskIn(Registering):
    agent: str = Field("", description="the agent's name; optional for an agent's own token")
    type: str = Field(description="a name for the kind of work, such as code or review")
    title: str = Field("", max_length=TITLE_LENGTH)
    payload: Any = None
    priority: StrictInt = 0
    needs: list[UUID] = Field(default_factory=list, max_length=MAX_NEEDS)
    max_attempts: StrictInt | None = Field(None, ge=1, le=MAX_ATTEMPTS)
    max_retries: StrictInt | None = Field(
        None, ge=1, le=MAX_ATTEMPTS, description="another name for max_attempts"
    )
    on_exhausted: Literal["escalate", "dead_letter"] | None = None
    backoff: BackoffIn | None = None
    lease_s: StrictInt | None = Field(None, ge=LEASE_S[0], le=LEASE_S[1])
    timeout_s: StrictInt | None = Field(None, ge=TIMEOUT_S[0], le=TIMEOUT_S[1])
    idempotent: StrictBool = Field(
        True, description="false to ask a person after a timeout instead of retrying"
    )
    non_retryable: StrictBool = False

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
    priority: StrictInt | None = None
    agent: str | None = Field(None, description="the name of the agent to move the task to")
    payload: Any = None
    max_attempts: StrictInt | None = Field(None, ge=1, le=MAX_ATTEMPTS)
    backoff: BackoffIn | None = None

    model_config = ConfigDict(json_schema_extra={"example": {"priority": 5}})


class TasksIn(In):
    tasks: list[TaskIn] = Field(min_length=1, max_length=MAX_TASKS_PER_CALL)

    model_config = ConfigDict(
        json_schema_extra={"example": {"tasks": [{"agent": "coder", "type": "code"}]}},
    )


class ManyQuery(Schema):
    atomic: bool = Field(True, description="true for all or none; false for each on its own")


class TaskQuery(PageQuery):
    state: str = Field("", description=STATES)
    agent: str = Field("", description=AGENT_ID_OR_NAME)
    type: str = ""
    q: str = Field("", max_length=200, description="text in the title")
    plan: str = Field("", description=PLAN_ID_OR_REF)
    ref: str = Field("", description="a task's ref, such as 03-01:task-3")
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
    "needs": [],
    "unmet": 0,
    "max_attempts": 3,
    "attempt_limit": 3,
    "attempts": 1,
    "retry_count": 0,
    "on_exhausted": "dead_letter",
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
    "replay_of": None,
    "replaced_by": None,
    "created_at": AT,
    "updated_at": AT,
    "started_at": AT,
    "completed_at": None,
    "version": 2,
}


class TaskOut(Schema):
    id: UUID
    ref: str | None
    plan: UUID | None
    run: int | None
    title: str
    type: str
    priority: int
    state: TaskState
    blocked_reason: str | None
    agent: str
    agent_id: UUID
    allowed_moves: list[str] = Field(description="states that the caller may move it to")
    payload: Any
    redactions: dict[str, int] = Field(description="number of masked secrets by kind")
    result: Any
    error: str | None
    needs: list[UUID] = Field(
        default_factory=list, description="tasks it waits for; omitted from claims"
    )
    unmet: int = Field(description="number of unmet needs")
    max_attempts: int
    attempt_limit: int
    attempts: int = Field(description="number of the latest attempt")
    retry_count: int
    on_exhausted: str
    backoff: BackoffIn
    lease_s: int
    timeout_s: int
    idempotent: bool
    current_attempt: UUID | None
    abort_requested: bool
    due_at: datetime | None
    escalation: UUID | None = Field(
        default=None, description="its open escalation; only when reading one task"
    )
    replay_of: UUID | None
    replaced_by: UUID | None
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    version: int

    model_config = ConfigDict(json_schema_extra={"example": TASK})


class TaskList(Listed):
    data: list[TaskOut]

    model_config = ConfigDict(
        json_schema_extra={"example": {"data": [TASK], "next_cursor": None, "has_more": False}}
    )


class TasksOut(Schema):
    data: list[TaskOut]

    model_config = ConfigDict(json_schema_extra={"example": {"data": [TASK]}})


class EachOut(Schema):
    index: int = Field(description="position in the request")
    status: int = Field(description="201, or the problem's status")
    body: dict[str, Any] = Field(description="the task, or its problem")


class EachTaskOut(Schema):
    data: list[EachOut]

    model_config = ConfigDict(
        json_schema_extra={"example": {"data": [{"index": 0, "status": 201, "body": TASK}]}}
    )


def task_out(row: Row, *, who: Who | None) -> dict[str, Any]:
    """Return the JSON object for a task's row, as `who` sees it."""
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
        **({"needs": row["need_ids"]} if "need_ids" in row else {}),
        "unmet": row["unmet"],
        "max_attempts": row["max_attempts"],
        "attempt_limit": row["attempt_limit"],
        "attempts": row["attempts"],
        "retry_count": row["retry_count"],
        "on_exhausted": row["on_exhausted"],
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
        "replay_of": row["replay_of_id"],
        "replaced_by": row["replaced_by_id"],
        "created_at": row["created_at"],
        "updated_at": row["updated_at"],
        "started_at": row["started_at"],
        "completed_at": row["completed_at"],
        "version": row["version"],
    }
