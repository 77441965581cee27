"""The schemas of the JSON renderings and of a log's query."""

from typing import Any, Literal
from uuid import UUID

from ninja import Schema
from pydantic import ConfigDict, Field

from ledger.models.plan import PlanState
from ledger.schemas.shared import ID
from ledger.states import FailureType

TASK_ID = "03-01:task-3"
NAME = "Create InvalidPlannerIdError class"
AT = "2026-01-26T14:30:00Z"
# examples of the renderings that are not JSON
LOG = f"[{AT}] [RETRY] [{TASK_ID}] attempt=1 status=failed type=verification_failed\n"
JSONL = (
    f'{{"timestamp":"{AT}","event":"escalated","task_id":"{TASK_ID}","attempts":3,'
    '"reason":"max_retries_exceeded"}\n'
)
STATE = "# State\n\n```yaml\nskipped_tasks: []\n```\n"
SUMMARY = "## Retry Summary for Plan 03-01\n\n| Metric | Value |\n|--------|-------|\n"


class TailQuery(Schema):
    tail: int | None = Field(
        None, ge=1, le=10_000, description="return only the last lines, up to this number"
    )


FAILED: dict[str, Any] = {
    "attempt": 1,
    "timestamp": AT,
    "failure_type": "verification_failed",
    "error_summary": "2 tests failed",
    "suggested_fix": "Add null check",
}


class StateFailure(Schema):
    attempt: int
    timestamp: str
    failure_type: Literal[tuple(FailureType.values)]  # type: ignore[valid-type]
    error_summary: str
    suggested_fix: str


class StateEntry(Schema):
    task_id: str = Field(description="its ref, or its id if it has none")
    task_name: str
    retry_count: int
    max_retries: int
    status: Literal["pending", "executing", "retrying", "escalated", "done", "skipped"]
    failures: list[StateFailure]
    current_attempt: int = Field(description="the next attempt while the task waits for it")
    started_at: str
    last_attempt_at: str


class StateStats(Schema):
    total_retries: int
    successful_retries: int
    escalations: int


class RetryState(Schema):
    task_retries: dict[str, StateEntry]
    global_stats: StateStats

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "task_retries": {
                    TASK_ID: {
                        "task_id": TASK_ID,
                        "task_name": f"Task 3: {NAME}",
                        "retry_count": 1,
                        "max_retries": 3,
                        "status": "retrying",
                        "failures": [FAILED],
                        "current_attempt": 2,
                        "started_at": "2026-01-26T14:28:00Z",
                        "last_attempt_at": AT,
                    }
                },
                "global_stats": {"total_retries": 5, "successful_retries": 3, "escalations": 1},
            }
        }
    )


class SummaryMetrics(Schema):
    total_tasks: int
    first_attempt_success: int
    first_attempt_success_percent: int
    retried_tasks: int
    retried_tasks_percent: int
    retry_success: int
    escalations: int
    skipped: int


class SummaryTask(Schema):
    id: UUID
    task_id: str
    label: str
    title: str
    attempts: int = Field(description="excludes released attempts")
    result: str


class SummaryPattern(Schema):
    name: str
    count: int


METRICS: dict[str, Any] = {
    "total_tasks": 5,
    "first_attempt_success": 3,
    "first_attempt_success_percent": 60,
    "retried_tasks": 2,
    "retried_tasks_percent": 40,
    "retry_success": 1,
    "escalations": 1,
    "skipped": 1,
}


class PlanSummary(Schema):
    ref: str
    state: Literal[tuple(PlanState.values)]  # type: ignore[valid-type]
    metrics: SummaryMetrics
    tasks: list[SummaryTask]
    patterns: list[SummaryPattern]

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "ref": "03-01",
                "state": "completed",
                "metrics": METRICS,
                "tasks": [
                    {
                        "id": ID,
                        "task_id": TASK_ID,
                        "label": "Task 3",
                        "title": NAME,
                        "attempts": 3,
                        "result": "skipped (escalated)",
                    }
                ],
                "patterns": [{"name": "verification_failed", "count": 4}],
            }
        }
    )
