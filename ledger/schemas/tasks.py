"""Schemas of tasks."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from ninja import Schema
from pydantic import AwareDatetime, Field, StrictBool, StrictInt

from ledger.database.sql import Row
from ledger.schemas.attempts import TraceOut
from ledger.schemas.budgets import BudgetIn
from ledger.schemas.shapes import AGENT_ID, AT, ID, Part, Shape, example_of, field
from ledger.schemas.shared import (
    AGENT_ID_OR_NAME,
    PLAN_ID_OR_REF,
    STATES,
    In,
    ListQuery,
    Registering,
)
from ledger.states import EvidenceLevel, Proof, RetryOn, TaskState, Who, allowed_moves, proof_of
from ledger.tasks.spec import (
    LEASE_S,
    MAX_ATTEMPTS,
    MAX_NEEDS,
    MAX_TASKS_PER_CALL,
    TIMEOUT_S,
    TITLE_LENGTH,
)

RETRY_ON = (
    "the members of its pool that may retry it: any, same (the one that had it last), or other "
    "(not the one that failed last, while another one can); as its pool says if missing"
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


class TaskIn(
    Registering,
    example={
        "agent": "coder",
        "type": "code",
        "title": "Create InvalidPlannerIdError",
        "payload": {
            "action": "Add the error and use it",
            "verify": {"command": "npm test -- PlannerId", "timeout_s": 120},
        },
    },
):
    agent: str = Field(
        "", description="the name of an agent or pool; optional for an agent's own token"
    )
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
    retry_on: RetryOn | None = Field(None, description=RETRY_ON)
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
    not_before: AwareDatetime | None = Field(
        None,
        description="no attempt starts before this time, at most 366 days ahead; until then the "
        "task is blocked",
    )
    budget: BudgetIn | None = Field(
        None, description="how much its attempts may use in all, in tokens or in dollars"
    )


class TaskPatch(In, example={"priority": 5}):
    priority: StrictInt | None = Field(None, description="higher goes first; 0 is usual")
    agent: str | None = Field(None, description="the name of the agent or pool to move the task to")
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
    retry_on: RetryOn | None = Field(None, description=RETRY_ON)
    not_before: AwareDatetime | None = Field(
        None,
        description="no attempt starts before this time, at most 366 days ahead; a time that has "
        "passed ends the wait; only while the task waits",
    )


class TasksIn(In, example={"tasks": [{"agent": "coder", "type": "code"}]}):
    tasks: list[TaskIn] = Field(
        min_length=1, max_length=MAX_TASKS_PER_CALL, description="the tasks to create"
    )


class ManyQuery(Schema):
    atomic: bool = Field(True, description="true for all or none; false for each on its own")


class TaskTypePatch(In, example={"paused": True, "note": "the build server is down"}):
    paused: StrictBool = Field(description="true to hand out no task of the type")
    note: str = Field("", max_length=2000, description="why, for the people who see it")


class TaskTypeOut(Shape):
    type: str = field("the type", "code")
    paused: bool = field("true if no claim hands out its tasks", True)
    paused_at: datetime | None = field("since when it is paused, or null")
    paused_by: str | None = field("who paused it, or null", "mara")
    note: str = field("why it is paused", "the build server is down")


class TaskTypesOut(Shape):
    data: list[TaskTypeOut] = field("the paused types")


class TaskQuery(ListQuery):
    state: str = Field("", description=STATES)
    agent: str = Field("", description=AGENT_ID_OR_NAME)
    pool: str = Field("", description="the name or id of a pool that it was sent to")
    type: str = Field("", description="the task's type")
    assignee: str = Field("", description="the assignee's username")
    q: str = Field("", max_length=200, description="text in the title")
    value: str = Field(
        "",
        max_length=320,
        description="a stored value at a key that the project declares, such as payload.order:1284",
    )
    plan: str = Field("", description=PLAN_ID_OR_REF)
    ref: str = Field("", description="a task's ref, such as 03-01:task-3")
    proof: str = Field("", description="one proof, or several separated by commas")
    updated_after: AwareDatetime | None = Field(
        None, description="only tasks updated after this time"
    )


class SkippedNeed(Part, keyed=True):
    id: UUID = field("the skipped task's id")
    ref: str | None = field("its ref within a plan; else null")
    title: str = field("what it should have done")


class TaskOut(Shape, keyed=True):
    id: UUID = field("the task's id")
    ref: str | None = field("the ref within a plan, such as 03-01:task-3; else null")
    plan: UUID | None = field("the plan's id; null outside a plan", source="plan_id")
    run: int | None = field("the plan's run; null outside a plan")
    title: str = field("what to do, in one line", "Create InvalidPlannerIdError")
    type: str = field("a name for the kind of work", "code")
    priority: int = field("higher goes first; 0 is usual")
    state: TaskState = field("the task's state", "running")
    blocked_reason: str | None = field("why it is blocked, such as dependency or breaker_open")
    agent: str = field(
        "the agent's name; while it waits in the queue of a pool, the pool's name",
        "coder",
        source="agent_name",
    )
    agent_id: UUID = field("the agent's id", AGENT_ID)
    pool: str | None = field(
        "the pool that it was sent to, or null",
        None,
        # Only a member of pools claims a task of one.
        source=lambda row: row.get("pool_name"),
    )
    assignee: str | None = field(
        "the username of the person who takes care of it; null if there is none, and in claims",
        None,
        # agents work on it, no matter which
        source=lambda row: row.get("assignee_name"),
    )
    retry_on: RetryOn | None = field(
        "the members of its pool that may retry it: any, same or other; null outside a pool", None
    )
    allowed_moves: list[str] = field(
        "states that the caller may move it to",
        ["done", "retry", "failed", "escalated", "blocked", "queued", "aborted"],
        given=True,
    )
    payload: Any = field(
        "any JSON; known keys: action, files, context, verify, done",
        {"action": "Add the error and use it"},
    )
    redactions: dict[str, int] = field("number of masked secrets by kind")
    result: Any = field("what the agent reported, or null", None)
    error: str | None = field("the last error, or null")
    proof: Proof | None = field(
        "of a task that is done, what it rests on: 'proven' if its check is known to "
        "have passed on the files that were left, 'stale' if they changed after it passed, "
        "'claimed' if the agent says so, 'person' if a person accepted it; else null",
        source=lambda row: proof_of(row["state"], row["proof"]),
    )
    needs: list[UUID] = field("the tasks that it needs, met or not", source="need_ids")
    skipped_needs: list[SkippedNeed] = field(
        "needs that were skipped or given up: their results may be missing",
        [],
        source=lambda row: row["skipped_needs"] or [],
    )
    unmet: int = field("number of unmet needs")
    max_attempts: int = field("attempts in a round", 3)
    attempt_limit: int = field("the number of the last attempt that may run", 3)
    attempts: int = field("number of the latest attempt", 1)
    retry_count: int = field("failures in this round that used up an attempt")
    on_exhausted: str = field("what happens when no attempts are left", "dead_letter")
    evidence: EvidenceLevel | None = field(
        "what is asked for before it is done: record, ask, or require; null if its "
        "plan or its project says it"
    )
    backoff: BackoffIn = field(
        "the delays before retries",
        BackoffIn.model_validate({}).model_dump(),
        source=lambda row: {name: row[name] for name in BackoffIn.model_fields},
    )
    lease_s: int = field("seconds of a lease; a heartbeat renews it", 300)
    timeout_s: int = field("maximum seconds of an attempt", 3600)
    idempotent: bool = field("false if a person is asked after a timeout", True)
    current_attempt: UUID | None = field("the running attempt, or null", ID)
    abort_requested: bool = field(
        "true if the running attempt is asked to stop",
        source=lambda row: row["abort_requested_at"] is not None,
    )
    due_at: datetime | None = field("when a retry is due, or null")
    not_before: datetime | None = field("the time before which no attempt starts, or null")
    files_held_by: UUID | None = field(
        "the task that it waits for because both name the same files, or null",
        # only rows of tasks that can wait come with it
        source=lambda row: row.get("files_held_by"),
    )
    escalation: UUID | None = field("its open escalation, or null", given=True)
    replay_of: UUID | None = field(
        "the failed task that it replays, or null", source="replay_of_id"
    )
    replaced_by: UUID | None = field(
        "the task that took its place, or null", source="replaced_by_id"
    )
    trace: TraceOut | None = field(
        "the trace of its latest attempt; null if neither side traces",
        None,
        # only rows of tasks that can have attempts come with it
        source=lambda row: row.get("latest_trace") or None,
    )
    created_at: datetime = field("when it was created")
    updated_at: datetime = field("when it was last changed")
    started_at: datetime | None = field("when the first attempt started, or null", AT)
    completed_at: datetime | None = field("when it ended; null before")
    version: int = field('changes with every update; the ETag is "v<version>"', 2)


class TasksOut(Shape):
    data: list[TaskOut] = field("the new tasks, in the request's order")


class EachOut(Part):
    index: int = field("position in the request")
    status: int = field("201, or the problem's status", 201)
    body: dict[str, Any] = field("the task, or its problem", example_of(TaskOut))


class EachTaskOut(Shape):
    data: list[EachOut] = field("one result per task, in the request's order")


def task_out(row: Row, *, who: Who | None, escalation: UUID | None = None) -> dict[str, Any]:
    # A task has one shape everywhere.
    moves = allowed_moves(row["state"], who, blocked_reason=row["blocked_reason"])
    return TaskOut.write(row, allowed_moves=moves, escalation=escalation)
