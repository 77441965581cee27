"""Render the retry summary of a plan (pure) as Markdown and as JSON."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from ledger.states import Proof, TaskState
from retries.tasks.labels import one_line

RESULTS = {TaskState.QUEUED: "pending", TaskState.RUNNING: "executing", TaskState.RETRY: "retrying"}
NO_PATTERNS = "No attempt has failed.\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSummary:
    """A task of the plan; `attempts` excludes the released ones."""

    id: UUID
    task_id: str
    label: str
    title: str
    state: str
    attempts: int
    escalations: int = 0
    proof: str | None = None

    @property
    def is_first_success(self) -> bool:
        return self.state == TaskState.DONE and self.attempts <= 1

    @property
    def is_retried(self) -> bool:
        return self.attempts > 1

    @property
    def result(self) -> str:
        if self.state == TaskState.DONE:
            return "success (retry worked)" if self.is_retried else "success"
        if self.state == TaskState.SKIPPED and self.escalations:
            return "skipped (escalated)"
        return RESULTS.get(TaskState(self.state), self.state)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The results of a plan's tasks so far; `patterns` counts the failures by name."""

    ref: str
    state: str
    tasks: Sequence[TaskSummary]
    patterns: Mapping[str, int]

    @property
    def total(self) -> int:
        return len(self.tasks)

    @property
    def first(self) -> int:
        return sum(task.is_first_success for task in self.tasks)

    @property
    def retried(self) -> int:
        return sum(task.is_retried for task in self.tasks)

    @property
    def retry_success(self) -> int:
        return sum(task.is_retried and task.state == TaskState.DONE for task in self.tasks)

    @property
    def escalations(self) -> int:
        return sum(task.escalations for task in self.tasks)

    @property
    def skipped(self) -> int:
        return sum(task.state == TaskState.SKIPPED for task in self.tasks)

    @property
    def proofs(self) -> dict[str, int]:
        counts = Counter(task.proof for task in self.tasks)
        return {proof.value: counts[proof.value] for proof in Proof}

    def percent(self, number: int) -> int:
        """Return a number's share of all tasks in whole percent.

        >>> Summary(ref="03-01", state="active", tasks=(), patterns={}).percent(0)
        0
        """
        return round(100 * number / self.total) if self.total else 0

    @property
    def frequent(self) -> list[tuple[str, int]]:
        return sorted(self.patterns.items(), key=lambda each: (-each[1], each[0]))


def render_markdown(summary: Summary) -> str:
    first, retried = summary.first, summary.retried
    details = "".join(
        f"| {escape_cell(task.label)} | {task.attempts} | {task.result} |\n"
        for task in summary.tasks
    )
    patterns = "".join(
        f"- {one_line(name)}: {count} occurrence{'' if count == 1 else 's'}\n"
        for name, count in summary.frequent
    )
    return f"""## Retry Summary for Plan {summary.ref}

| Metric | Value |
|--------|-------|
| Total tasks | {summary.total} |
| First-attempt success | {first} ({summary.percent(first)}%) |
| Retried tasks | {retried} ({summary.percent(retried)}%) |
| Retry success | {summary.retry_success} |
| Escalations | {summary.escalations} |
| Skipped | {summary.skipped} |

### Retry Details

| Task | Attempts | Result |
|------|----------|--------|
{details}
### Common Failure Patterns

{patterns or NO_PATTERNS}"""


def escape_cell(text: str) -> str:
    return one_line(text).replace("\\", "\\\\").replace("|", "\\|")


def serialize_summary(summary: Summary) -> dict[str, Any]:
    first, retried = summary.first, summary.retried
    return {
        "ref": summary.ref,
        "state": summary.state,
        "metrics": {
            "total_tasks": summary.total,
            "first_attempt_success": first,
            "first_attempt_success_percent": summary.percent(first),
            "retried_tasks": retried,
            "retried_tasks_percent": summary.percent(retried),
            "retry_success": summary.retry_success,
            "escalations": summary.escalations,
            "skipped": summary.skipped,
        },
        "proofs": summary.proofs,
        "tasks": [
            {
                "id": str(task.id),
                "task_id": task.task_id,
                "label": task.label,
                "title": task.title,
                "attempts": task.attempts,
                "result": task.result,
                "proof": task.proof,
            }
            for task in summary.tasks
        ],
        "patterns": [{"name": name, "count": count} for name, count in summary.frequent],
    }
