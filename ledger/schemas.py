"""The shapes of the API: what comes in, what goes out."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from ninja import Schema
from pydantic import AwareDatetime, ConfigDict, Field, StrictBool, StrictInt

from ledger.instructions import (
    CONTENT_BYTES,
    EXPECT_TYPE_LENGTH,
    MATCH_SCALARS,
    MAX_RETRIES,
    NOTE_LENGTH,
)
from ledger.models import Attempt, Failure, Plan, PlanState
from ledger.models.agent import CONCURRENCY, SYSTEM_TEXT_LENGTH
from ledger.planfile.model import MOST_TASKS
from ledger.plans import verify_of
from ledger.sql import Row
from ledger.states import (
    BreakerState,
    FailureType,
    InstructionState,
    Outcome,
    TaskState,
    Urgency,
    Who,
    allowed_moves,
    prefixed,
    urgency_of,
)
from ledger.tasks import AT_ONCE, LEASE_S, MAX_ATTEMPTS, MOST_NEEDS, TIMEOUT_S, TITLE_LENGTH

ID = "01a1fe6d-9b01-7830-98b6-0164ecc5924c"
AGENT_ID = "01a1fe6d-9af5-7be0-83ca-c63e43309669"
AT = "2026-11-21T14:05:58.436Z"


class In(Schema):
    """A body: a field that Heed does not know is a mistake worth telling."""

    model_config = ConfigDict(extra="forbid")


class PageQuery(Schema):
    limit: int = Field(50, ge=1, le=100)
    cursor: str = Field("", description="the 'next_cursor' of the page before")


class InstructionQuery(PageQuery):
    state: str = Field("", description="one state or several, with commas")
    agent: str = Field("", description="the agent's name")


class StatsQuery(Schema):
    window: str = Field("24h", description="such as 30m, 24h or 7d")


class EventQuery(Schema):
    after: str = Field("", description="the 'next_cursor' of the page before")
    limit: int = Field(50, ge=1, le=100)


class ExpectIn(In):
    type: str = Field(min_length=1, max_length=EXPECT_TYPE_LENGTH)
    match: dict[str, Any] = Field(default_factory=dict, max_length=MATCH_SCALARS)


class InstructionIn(In):
    agent: str = Field(description="the agent's name")
    content: str = Field(
        description=f"what to do, at most {CONTENT_BYTES} bytes; it may be delivered several "
        "times, so it must be safe to follow twice"
    )
    max_retries: StrictInt | None = Field(None, ge=0, le=MAX_RETRIES)
    tracked: StrictBool = Field(True, description="false: delivered once, never chased")
    expect: ExpectIn | None = Field(None, description="the signal that acknowledges it")
    priority: StrictBool = Field(False, description="to the front of the queue")
    on_failed: Literal["record", "escalate"] | None = None
    register_: StrictBool = Field(
        False, alias="register", description="make the agent known if it is not"
    )

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {
                "agent": "coder",
                "content": "Check if the OpenSpec CLI is available",
                "expect": {"type": "fs_command", "match": {"command": "openspec"}},
            }
        },
    )


INSTRUCTION: dict[str, Any] = {
    "id": ID,
    "agent": AGENT_ID,
    "agent_name": "coder",
    "task": None,
    "content": "Check if the OpenSpec CLI is available",
    "text": "**IMPORTANT:** Check if the OpenSpec CLI is available",
    "urgency": "important",
    "state": "delivered",
    "retry_count": 2,
    "max_retries": 3,
    "deliveries": 3,
    "tracked": True,
    "expect": {"type": "fs_command", "match": {"command": "openspec"}},
    "on_failed": "record",
    "sent_by": {"type": "token", "name": "producer"},
    "resend_of": None,
    "acknowledged_by": None,
    "outcome": None,
    "note": "",
    "deduplicated": False,
    "queued_at": AT,
    "delivered_at": AT,
    "acknowledged_at": None,
    "failed_at": None,
    "cancelled_at": None,
    "late_ack_at": None,
    "updated_at": AT,
    "late": False,
}


class InstructionOut(Schema):
    id: UUID
    agent: UUID
    agent_name: str
    task: UUID | None
    content: str
    text: str = Field(description="what the agent gets: the content behind its urgency's prefix")
    urgency: Urgency
    state: InstructionState
    retry_count: int
    max_retries: int
    deliveries: int
    tracked: bool
    expect: dict[str, Any] | None
    on_failed: str
    sent_by: dict[str, str]
    resend_of: UUID | None
    acknowledged_by: dict[str, Any] | None
    outcome: str | None
    note: str
    deduplicated: bool
    queued_at: datetime
    delivered_at: datetime | None
    acknowledged_at: datetime | None
    failed_at: datetime | None
    cancelled_at: datetime | None
    late_ack_at: datetime | None
    updated_at: datetime
    late: bool = Field(description="true where an ack came after it had failed or was cancelled")

    model_config = ConfigDict(json_schema_extra={"example": INSTRUCTION})


def instruction_out(row: Row) -> dict[str, Any]:
    """The JSON object of an instruction's row."""
    expects = row["expect_type"]
    return {
        "id": row["id"],
        "agent": row["agent_id"],
        "agent_name": row["agent_name"],
        "task": None,
        "content": row["content"],
        "text": prefixed(row["content"], row["retry_count"]),
        "urgency": urgency_of(row["retry_count"]),
        "state": row["state"],
        "retry_count": row["retry_count"],
        "max_retries": row["max_retries"],
        "deliveries": row["deliveries"],
        "tracked": row["tracked"],
        "expect": {"type": expects, "match": row["expect_match"]} if expects else None,
        "on_failed": row["on_failed"],
        "sent_by": {"type": row["sent_by_type"], "name": row["sent_by_name"]},
        "resend_of": row["resend_of_id"],
        "acknowledged_by": row["acknowledged_by"],
        "outcome": row["outcome"],
        "note": row["note"],
        "deduplicated": row.get("deduplicated", False),
        "queued_at": row["queued_at"],
        "delivered_at": row["delivered_at"],
        "acknowledged_at": row["acknowledged_at"],
        "failed_at": row["failed_at"],
        "cancelled_at": row["cancelled_at"],
        "late_ack_at": row["late_ack_at"],
        "updated_at": row["updated_at"],
        "late": row.get("late", False),
    }


class Listed(Schema):
    next_cursor: str | None
    has_more: bool


class InstructionList(Listed):
    data: list[InstructionOut]

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"data": [INSTRUCTION], "next_cursor": None, "has_more": False}
        }
    )


class PullIn(In):
    limit: StrictInt = Field(10, ge=1, le=100)

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": {"limit": 10}})


class PullOut(Schema):
    data: list[InstructionOut]
    retry_after_s: int = Field(description="ask again after so many seconds; 0: more is waiting")

    model_config = ConfigDict(
        json_schema_extra={"example": {"data": [INSTRUCTION], "retry_after_s": 2}}
    )


class AckIn(In):
    outcome: Literal["done", "accepted", "declined"] = "done"
    note: str = Field("", max_length=NOTE_LENGTH)

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"example": {"outcome": "done", "note": "It is 1.4.2"}}
    )


class AckManyIn(In):
    ids: list[UUID] = Field(min_length=1, max_length=100)

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": {"ids": [ID]}})


class AckResult(Schema):
    id: UUID
    status: Literal[200, 404]
    instruction: InstructionOut | None


class AckManyOut(Schema):
    data: list[AckResult]

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "data": [
                    {
                        "id": ID,
                        "status": 200,
                        "instruction": INSTRUCTION | {"state": "acknowledged"},
                    }
                ]
            }
        }
    )


class SignalIn(In):
    type: str = Field(min_length=1, max_length=EXPECT_TYPE_LENGTH)
    data: dict[str, Any] = Field(default_factory=dict)

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {"type": "fs_command", "data": {"command": "openspec", "found": True}}
        },
    )


class SignalOut(Schema):
    acknowledged: list[UUID] = Field(description="the instructions that expected it, oldest first")

    model_config = ConfigDict(json_schema_extra={"example": {"acknowledged": [ID]}})


class BreakerOut(Schema):
    state: BreakerState
    failures: int = Field(description="in a row")
    reason: str
    opened_at: datetime | None
    retry_at: datetime | None = Field(description="when an open one lets a probe through")
    held_tasks: int = Field(description="tasks that wait until it is no longer open")


class AgentOut(Schema):
    id: UUID
    name: str
    paused: bool
    concurrency: int | None = Field(description="attempts that may run at once; null: any number")
    system_text: str = Field(description="what stands before every prompt of its tasks")
    running: int = Field(description="attempts under way")
    breaker: BreakerOut
    last_seen_at: datetime | None
    silent: bool = Field(description="it does not fetch although instructions wait")
    waiting: int = Field(description="instructions in its queue")
    awaiting_ack: int = Field(description="instructions it has got and not acknowledged")
    created_at: datetime

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "id": AGENT_ID,
                "name": "coder",
                "paused": False,
                "concurrency": 4,
                "system_text": "You work on the ledger. Run the tests before you report.",
                "running": 1,
                "breaker": {
                    "state": "closed",
                    "failures": 0,
                    "reason": "",
                    "opened_at": None,
                    "retry_at": None,
                    "held_tasks": 0,
                },
                "last_seen_at": AT,
                "silent": False,
                "waiting": 0,
                "awaiting_ack": 1,
                "created_at": AT,
            }
        }
    )


class AgentList(Listed):
    data: list[AgentOut]

    model_config = ConfigDict(
        json_schema_extra={"example": {"data": [], "next_cursor": None, "has_more": False}}
    )


class AgentPatch(In):
    paused: StrictBool | None = None
    concurrency: StrictInt | None = Field(
        None,
        ge=CONCURRENCY[0],
        le=CONCURRENCY[1],
        description="attempts that may run at once; null: any number",
    )
    system_text: str | None = Field(
        None,
        max_length=SYSTEM_TEXT_LENGTH,
        description="what stands before every prompt of its tasks; null or empty: nothing",
    )

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {
                "paused": False,
                "concurrency": 4,
                "system_text": "You work on the ledger. Run the tests before you report.",
            }
        },
    )


class ResetOut(Schema):
    cancelled: int

    model_config = ConfigDict(json_schema_extra={"example": {"cancelled": 3}})


class Named(Schema):
    id: UUID
    name: str


class TokenOut(Schema):
    id: UUID
    prefix: str
    expires_at: datetime | None


class Limits(Schema):
    content_bytes: int
    body_bytes: int
    page: int


class MeOut(Schema):
    kind: str
    name: str
    project: Named
    agent: Named | None
    scopes: list[str]
    token: TokenOut
    limits: Limits
    poll_every_s: int
    server_time: datetime
    version: str

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "kind": "agent",
                "name": "coder",
                "project": {"id": ID, "name": "default"},
                "agent": {"id": AGENT_ID, "name": "coder"},
                "scopes": ["instructions:ack", "instructions:read", "signals:write"],
                "token": {"id": ID, "prefix": "heed_agt_VquT", "expires_at": AT},
                "limits": {"content_bytes": 8192, "body_bytes": 262144, "page": 100},
                "poll_every_s": 2,
                "server_time": AT,
                "version": "0.1.0",
            }
        }
    )


class EventOut(Schema):
    id: UUID
    type: str
    at: datetime
    project: UUID
    subject_type: str
    subject: UUID
    agent: UUID | None
    from_state: str | None
    to_state: str | None
    actor: dict[str, str]
    data: dict[str, Any]
    request_id: str


class EventList(Listed):
    data: list[EventOut]

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "data": [
                    {
                        "id": ID,
                        "type": "instruction.requeued",
                        "at": AT,
                        "project": ID,
                        "subject_type": "instruction",
                        "subject": ID,
                        "agent": AGENT_ID,
                        "from_state": "delivered",
                        "to_state": "queued",
                        "actor": {"type": "system", "id": "idle_check", "name": "idle_check"},
                        "data": {"retry_count": 1},
                        "request_id": "",
                    }
                ],
                "next_cursor": "ODE1LjAxYTFmZTZk",
                "has_more": True,
            }
        }
    )


class LevelOut(Schema):
    urgency: Urgency
    acknowledged: int = Field(description="heeded at this level")
    waiting: int
    ack_p50_s: float | None
    ack_p95_s: float | None


class StatisticsOut(Schema):
    name: str
    sent: int
    acknowledged: int
    failed: int
    cancelled: int
    waiting: int
    retries: int
    retry_rate: float = Field(description="retries per instruction sent")
    retried_share: float = Field(description="the share that needed a retry")
    failed_share: float = Field(description="the share given up")
    ack_p50_s: float | None = Field(description="from the sending to the ack, half within")
    ack_p95_s: float | None
    levels: list[LevelOut] = Field(description="first, again, important, urgent")


class StatsOut(Schema):
    window_s: int
    project: StatisticsOut
    agents: list[StatisticsOut]

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "window_s": 86400,
                "project": {
                    "name": "default",
                    "sent": 12,
                    "acknowledged": 9,
                    "failed": 2,
                    "cancelled": 0,
                    "waiting": 1,
                    "retries": 14,
                    "retry_rate": 1.1667,
                    "retried_share": 0.5,
                    "failed_share": 0.1667,
                    "ack_p50_s": 2.1,
                    "ack_p95_s": 118.4,
                    "levels": [
                        {
                            "urgency": "first",
                            "acknowledged": 6,
                            "waiting": 1,
                            "ack_p50_s": 1.2,
                            "ack_p95_s": 2.4,
                        }
                    ],
                },
                "agents": [],
            }
        }
    )


class ProblemOut(Schema):
    """RFC 9457, with Heed's extension members."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    retryable: bool
    hint: str
    request_id: str

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "example": {
                "type": "https://heed.example.org/problems/unknown_agent",
                "title": "No agent has this name",
                "status": 422,
                "detail": "No agent is called 'codr' in project 'default'. Nearest: coder.",
                "instance": "/v1/instructions",
                "code": "unknown_agent",
                "retryable": False,
                "hint": "Use one of the nearest names, or send 'register': true.",
                "request_id": "2f1c0b0f5b8f4b0fa0d7c9d1f2e3a4b5",
                "nearest": ["coder"],
            }
        },
    )


# ---- tasks


class BackoffIn(In):
    base_delay_ms: StrictInt = Field(100, ge=0, le=86_400_000)
    max_delay_ms: StrictInt = Field(30_000, ge=0, le=86_400_000)
    exponential_base: float = Field(2.0, ge=1, le=100)
    jitter: StrictBool = True


class TaskIn(In):
    agent: str = Field("", description="the agent's name; an agent's token may leave it out")
    type: str = Field(description="such as code or review")
    title: str = Field("", max_length=TITLE_LENGTH)
    payload: Any = None
    priority: StrictInt = 0
    needs: list[UUID] = Field(default_factory=list, max_length=MOST_NEEDS)
    max_attempts: StrictInt | None = Field(None, ge=1, le=MAX_ATTEMPTS)
    max_retries: StrictInt | None = Field(
        None, ge=1, le=MAX_ATTEMPTS, description="another name of max_attempts"
    )
    on_exhausted: Literal["escalate", "dead_letter"] | None = None
    backoff: BackoffIn | None = None
    lease_s: StrictInt | None = Field(None, ge=LEASE_S[0], le=LEASE_S[1])
    timeout_s: StrictInt | None = Field(None, ge=TIMEOUT_S[0], le=TIMEOUT_S[1])
    idempotent: StrictBool = Field(True, description="false: a timeout asks a person")
    non_retryable: StrictBool = False
    register_: StrictBool = Field(
        False, alias="register", description="make the agent known if it is not"
    )

    model_config = ConfigDict(
        extra="forbid",
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
    agent: str | None = Field(None, description="another agent's name")
    payload: Any = None
    max_attempts: StrictInt | None = Field(None, ge=1, le=MAX_ATTEMPTS)
    backoff: BackoffIn | None = None

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": {"priority": 5}})


class TasksIn(In):
    tasks: list[TaskIn] = Field(min_length=1, max_length=AT_ONCE)

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"example": {"tasks": [{"agent": "coder", "type": "code"}]}},
    )


class ManyQuery(Schema):
    atomic: bool = Field(True, description="all of them or none; false: each for itself")


class TaskQuery(PageQuery):
    state: str = Field("", description="one state or several, with commas")
    agent: str = Field("", description="the agent's name")
    type: str = ""
    q: str = Field("", max_length=200, description="a part of the title")
    plan: str = Field("", description="a plan's id or its ref, such as 03-01")
    ref: str = Field("", description="such as 03-01:task-3")
    updated_after: AwareDatetime | None = Field(None, description="what has changed since then")


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
    allowed_moves: list[str] = Field(description="where whoever asks may move it")
    payload: Any
    redactions: dict[str, int] = Field(description="how many secrets were masked, by kind")
    result: Any
    error: str | None
    needs: list[UUID] = Field(
        default_factory=list, description="what it waits for; left out where a task is handed out"
    )
    unmet: int = Field(description="needs that are not yet met")
    max_attempts: int
    attempt_limit: int
    attempts: int = Field(description="the number of the last attempt")
    retry_count: int
    on_exhausted: str
    backoff: BackoffIn
    lease_s: int
    timeout_s: int
    idempotent: bool
    current_attempt: UUID | None
    abort_requested: bool
    due_at: datetime | None
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
    index: int = Field(description="its place in what was sent")
    status: int = Field(description="201, or the status of its problem")
    body: dict[str, Any] = Field(description="the task, or its problem")


class EachTaskOut(Schema):
    data: list[EachOut]

    model_config = ConfigDict(
        json_schema_extra={"example": {"data": [{"index": 0, "status": 201, "body": TASK}]}}
    )


def task_out(row: Row, *, who: Who) -> dict[str, Any]:
    """The JSON object of a task's row, as `who` sees it."""
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
        "allowed_moves": allowed_moves(row["state"], who),
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
    outcome: Outcome | None = Field(description="null while it is live")
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
    """The JSON object of an attempt, with its failure loaded."""
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


def event_out(row: Row) -> dict[str, Any]:
    """The JSON object of a line of the journal."""
    return {
        "id": row["id"],
        "type": row["kind"],
        "at": row["at"],
        "project": row["project_id"],
        "subject_type": row["subject_type"],
        "subject": row["subject_id"],
        "agent": row["agent_id"],
        "from_state": row["from_state"],
        "to_state": row["to_state"],
        "actor": {"type": row["actor_type"], "id": row["actor_id"], "name": row["actor_name"]},
        "data": row["data"],
        "request_id": row["request_id"],
    }


# ---- plans

PLAN: dict[str, Any] = {
    "id": ID,
    "ref": "03-01",
    "title": "Planner ids",
    "objective": "Ids that can't be invalid",
    "state": "active",
    "run": 1,
    "tasks": 5,
    "counts": {
        "queued": 1,
        "running": 1,
        "retry": 0,
        "blocked": 1,
        "escalated": 0,
        "done": 2,
        "failed": 0,
        "skipped": 0,
        "aborted": 0,
    },
    "created_by": {"type": "token", "name": "ci"},
    "created_at": AT,
    "updated_at": AT,
    "paused_at": None,
    "aborted_at": None,
    "completed_at": None,
    "version": 1,
}
PLAN_TASK: dict[str, Any] = {
    "id": ID,
    "ref": "03-01:task-3",
    "run": 1,
    "title": "Create InvalidPlannerIdError",
    "type": "auto",
    "agent": "coder",
    "state": "blocked",
    "blocked_reason": "dependency",
    "priority": 0,
    "attempts": 0,
    "attempt_limit": 3,
    "retry_count": 0,
    "needs": ["03-01:task-2", "02-05:task-4"],
    "proposed_command": None,
}


class PlanQuery(PageQuery):
    state: str = Field("", description="one state or several, with commas")
    ref: str = Field("", description="such as 03-01")
    q: str = Field("", max_length=200, description="a part of the title")


class ImportQuery(Schema):
    mode: Literal["create", "merge", "replace"] = Field(
        "create", description="what to do with a plan of this ref that has another content"
    )
    dry_run: bool = Field(False, description="say what would change, and keep nothing")
    register_: bool = Field(
        False, alias="register", description="make agents known that are not yet"
    )
    agent: str = Field("", description="for the tasks for which the file names none")
    allow_missing_needs: bool = Field(
        False, description="wait for plans and tasks that nobody has imported yet"
    )


class PlanPatch(In):
    title: str | None = Field(None, max_length=TITLE_LENGTH)

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"example": {"title": "Planner ids, again"}}
    )


class PlanWhyIn(In):
    reason: str = Field("", max_length=2000)

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"example": {"reason": "the branch is frozen"}}
    )


class ConfirmIn(In):
    commands: dict[str, str] = Field(
        min_length=1,
        max_length=MOST_TASKS,
        description="the commands to run, as they were shown, by the refs of their tasks",
    )

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"example": {"commands": {"03-01:task-3": "npm test -- PlannerId"}}},
    )


class By(Schema):
    type: str
    name: str


class PlanOut(Schema):
    id: UUID | None = Field(description="null after a dry run that would make the plan")
    ref: str
    title: str
    objective: str
    state: PlanState
    run: int = Field(description="how often it was started")
    tasks: int
    counts: dict[str, int] = Field(description="how many tasks are in each state")
    created_by: By
    created_at: datetime
    updated_at: datetime
    paused_at: datetime | None
    aborted_at: datetime | None
    completed_at: datetime | None
    version: int

    model_config = ConfigDict(json_schema_extra={"example": PLAN})


class PlanTaskOut(Schema):
    id: UUID | None = Field(description="null after a dry run that would make the task")
    ref: str
    run: int
    title: str
    type: str
    agent: str
    state: TaskState
    blocked_reason: str | None
    priority: int
    attempts: int = Field(description="the number of the last attempt")
    attempt_limit: int
    retry_count: int
    needs: list[str] = Field(description="the refs of tasks, and of what is not imported yet")
    proposed_command: str | None = Field(
        description="a check that was found in prose: nobody runs it until a person confirms it"
    )

    model_config = ConfigDict(json_schema_extra={"example": PLAN_TASK})


class PlanWithTasksOut(Schema):
    plan: PlanOut
    tasks: list[PlanTaskOut] = Field(description="an agent sees its own")

    model_config = ConfigDict(json_schema_extra={"example": {"plan": PLAN, "tasks": [PLAN_TASK]}})


class DiffOut(Schema):
    added: list[str]
    changed: dict[str, list[str]] = Field(description="what is new of each")
    same: list[str]
    untouched: list[str] = Field(description="would be changed, but have begun or are over")
    left: list[str] = Field(description="not in the file, and kept")
    aborted: list[str]


class ImportedOut(PlanWithTasksOut):
    warnings: list[str]
    diff: DiffOut
    unchanged: bool
    dry_run: bool

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "plan": PLAN,
                "tasks": [PLAN_TASK],
                "warnings": [],
                "diff": {
                    "added": ["03-01:task-3"],
                    "changed": {},
                    "same": [],
                    "untouched": [],
                    "left": [],
                    "aborted": [],
                },
                "unchanged": False,
                "dry_run": False,
            }
        }
    )


class PlanList(Listed):
    data: list[PlanOut]

    model_config = ConfigDict(
        json_schema_extra={"example": {"data": [PLAN], "next_cursor": None, "has_more": False}}
    )


def plan_out(plan: Plan, counts: dict[str, int]) -> dict[str, Any]:
    """The JSON object of a plan, with how many of its tasks are in each state."""
    return {
        "id": plan.pk,
        "ref": plan.ref,
        "title": plan.title,
        "objective": plan.objective,
        "state": plan.state,
        "run": plan.run,
        "tasks": sum(counts.values()),
        "counts": counts,
        "created_by": {"type": plan.created_by_type, "name": plan.created_by_name},
        "created_at": plan.created_at,
        "updated_at": plan.updated_at,
        "paused_at": plan.paused_at,
        "aborted_at": plan.aborted_at,
        "completed_at": plan.completed_at,
        "version": plan.version,
    }


def plan_task_out(row: Row) -> dict[str, Any]:
    """The JSON object of a task as its plan shows it."""
    return {
        "id": row["id"],
        "ref": row["ref"],
        "run": row["run"],
        "title": row["title"],
        "type": row["type"],
        "agent": row["agent_name"],
        "state": row["state"],
        "blocked_reason": row["blocked_reason"],
        "priority": row["priority"],
        "attempts": row["attempts"],
        "attempt_limit": row["attempt_limit"],
        "retry_count": row["retry_count"],
        "needs": row["need_refs"],
        "proposed_command": verify_of(row["payload"]).get("proposed_command"),
    }
