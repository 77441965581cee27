"""The retry summary of a plan (pure), as Markdown and as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from ledger.states import TaskState
from retries.renderings.labels import one_line

RESULTS = {
    TaskState.QUEUED: "pending",
    TaskState.RUNNING: "executing",
    TaskState.RETRY: "retrying",
}
NO_PATTERNS = "No attempt has failed.\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A task of the plan. `attempts` leaves out those that were given back."""

    id: UUID
    task_id: str
    label: str
    title: str
    state: str
    attempts: int
    escalations: int = 0

    @property
    def is_first_success(self) -> bool:
        return self.state == TaskState.DONE and self.attempts <= 1

    @property
    def is_retried(self) -> bool:
        return self.attempts > 1

    @property
    def result(self) -> str:
        """How it ended, or where it stands."""
        if self.state == TaskState.DONE:
            return "success (retry worked)" if self.is_retried else "success"
        if self.state == TaskState.SKIPPED and self.escalations:
            return "skipped (escalated)"
        return RESULTS.get(TaskState(self.state), self.state)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What became of a plan's tasks so far; `patterns` says what failed, and how often."""

    ref: str
    state: str
    lines: Sequence[Line]
    patterns: Mapping[str, int]

    @property
    def total(self) -> int:
        return len(self.lines)

    @property
    def first(self) -> int:
        return sum(line.is_first_success for line in self.lines)

    @property
    def retried(self) -> int:
        return sum(line.is_retried for line in self.lines)

    @property
    def retry_success(self) -> int:
        return sum(line.is_retried and line.state == TaskState.DONE for line in self.lines)

    @property
    def escalations(self) -> int:
        return sum(line.escalations for line in self.lines)

    @property
    def skipped(self) -> int:
        return sum(line.state == TaskState.SKIPPED for line in self.lines)

    def percent(self, number: int) -> int:
        """Of all tasks, in whole percent.

        >>> Summary(ref="03-01", state="active", lines=(), patterns={}).percent(0)
        0
        """
        return round(100 * number / self.total) if self.total else 0

    @property
    def frequent(self) -> list[tuple[str, int]]:
        """The patterns, most frequent first."""
        return sorted(self.patterns.items(), key=lambda each: (-each[1], each[0]))


def markdown(summary: Summary) -> str:
    """Tasks that always need retries, common failures and the first-attempt rate, at a glance."""
    first, retried = summary.first, summary.retried
    details = "".join(
        f"| {cell(line.label)} | {line.attempts} | {line.result} |\n" for line in summary.lines
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


def cell(text: str) -> str:
    """In its cell, whatever it is."""
    return one_line(text).replace("\\", "\\\\").replace("|", "\\|")


def as_json(summary: Summary) -> dict[str, Any]:
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
        "tasks": [
            {
                "id": str(line.id),
                "task_id": line.task_id,
                "label": line.label,
                "title": line.title,
                "attempts": line.attempts,
                "result": line.result,
            }
            for line in summary.lines
        ],
        "patterns": [{"name": name, "count": count} for name, count in summary.frequent],
    }
