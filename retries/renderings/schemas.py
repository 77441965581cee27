"""The schemas of the JSON renderings and of a log's query."""

from typing import Any, Literal
from uuid import UUID

from ninja import Schema
from pydantic import ConfigDict, Field

from ledger.models.plan import PlanState
from ledger.schemas.shapes import ID
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
RECORDS = (
    f'---\ntask_id: "{TASK_ID}"\nfailure_record:\n  attempt: 1\n  timestamp: "{AT}"\n'
    '  failure_type: "verification_failed"\n'
)
STATE = "# State\n\n```yaml\nskipped_tasks: []\n```\n"
SUMMARY = "## Retry Summary for Plan 03-01\n\n| Metric | Value |\n|--------|-------|\n"


class TailQuery(Schema):
    tail: int | None = Field(
        None, ge=1, le=10_000, description="return only the last lines or records, at most so many"
    )


class LogQuery(TailQuery):
    after: str | None = Field(
        None,
        max_length=64,
        description="return only the lines after this position: the header Next-Cursor of the "
        "last response, or nothing to begin with the window",
    )


FAILED: dict[str, Any] = {
    "attempt": 1,
    "timestamp": AT,
    "failure_type": "verification_failed",
    "error_summary": "2 tests failed",
    "suggested_fix": "Add null check",
}


class StateFailure(Schema):
    attempt: int = Field(description="the attempt's number")
    timestamp: str = Field(description="when it failed")
    failure_type: Literal[tuple(FailureType.values)] = Field(  # type: ignore[valid-type]
        description="the kind of failure"
    )
    error_summary: str = Field(description="the error in one line")
    suggested_fix: str = Field(description="what the next attempt could do differently")


class StateEntry(Schema):
    task_id: str = Field(description="its ref, or its id if it has none")
    task_name: str = Field(description="the task's label and title")
    retry_count: int = Field(description="failed attempts")
    max_retries: int = Field(description="the task's attempt limit")
    status: Literal["pending", "executing", "retrying", "escalated", "done", "skipped"] = Field(
        description="the task's state"
    )
    failures: list[StateFailure] = Field(description="the failures, oldest first")
    current_attempt: int = Field(description="the next attempt while the task waits for it")
    started_at: str = Field(description="when the first attempt started")
    last_attempt_at: str = Field(description="when the last attempt started")


class StateStats(Schema):
    total_retries: int = Field(description="number of retries")
    successful_retries: int = Field(description="tasks that a retry completed")
    escalations: int = Field(description="number of escalations")


class RetryState(Schema):
    task_retries: dict[str, StateEntry] = Field(
        description="the tasks' entries by ref, or by id without a ref"
    )
    global_stats: StateStats = Field(description="totals")

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
    total_tasks: int = Field(description="number of tasks")
    first_attempt_success: int = Field(description="tasks done at the first attempt")
    first_attempt_success_percent: int = Field(description="their share in percent")
    retried_tasks: int = Field(description="tasks that needed a retry")
    retried_tasks_percent: int = Field(description="their share in percent")
    retry_success: int = Field(description="retried tasks that were done in the end")
    escalations: int = Field(description="tasks that needed a person")
    skipped: int = Field(description="tasks that a person skipped")


class SummaryTask(Schema):
    id: UUID = Field(description="the task's id")
    task_id: str = Field(description="the task's ref")
    label: str = Field(description="the task's short name, such as Task 3")
    title: str = Field(description="the task's title")
    attempts: int = Field(description="excludes released attempts")
    result: str = Field(description="how it ended")
    proof: str | None = Field(description="what it rests on, if it is done; else null")


class SummaryPattern(Schema):
    name: str = Field(description="the failure code or type")
    count: int = Field(description="how often")


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
    ref: str = Field(description="the plan's ref")
    state: Literal[tuple(PlanState.values)] = Field(  # type: ignore[valid-type]
        description="the plan's state"
    )
    metrics: SummaryMetrics = Field(description="the counts of the summary")
    proofs: dict[str, int] = Field(
        description="number of done tasks with each proof: proven, stale, claimed, and person"
    )
    tasks: list[SummaryTask] = Field(
        description="the tasks that were retried, escalated, or skipped"
    )
    patterns: list[SummaryPattern] = Field(description="the most frequent failure codes")

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "ref": "03-01",
                "state": "completed",
                "metrics": METRICS,
                "proofs": {"proven": 3, "stale": 0, "claimed": 1, "person": 0},
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
