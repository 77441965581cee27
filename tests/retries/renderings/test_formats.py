"""Each format compared with the samples of its document."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest
import yaml

from ledger.states import TaskState
from retries.renderings import plan_summary, retry_jsonl, retry_log, retry_state, state_md
from retries.renderings.log_entries import (
    AnswerEntry,
    AttemptEntry,
    EscalationEntry,
    FeedbackEntry,
    LogEntry,
    ResolutionEntry,
)
from retries.renderings.plan_summary import Summary, TaskSummary
from retries.renderings.retry_state import ActiveTask, AttemptFailure, GlobalStats, status_of
from retries.renderings.state_md import SkippedTask

TASK = "03-01:task-3"
NAME = "Task 3: Create InvalidPlannerIdError class"
VERIFICATION = "verification_failed"


def at(minute: int, second: int = 0) -> datetime:
    return datetime(2026, 1, 26, 14, minute, second, tzinfo=UTC)


def failed(number: int, minute: int, error: str, fix: str = "", ms: int = 0) -> AttemptEntry:
    return AttemptEntry(
        at=at(minute),
        task_id=TASK,
        attempt=number,
        status="failed",
        failure_type=VERIFICATION,
        error=error,
        suggested_fix=fix,
        duration_ms=ms,
    )


# ---- retry.log and retry.jsonl

LOG = """\
[2026-01-26T14:30:00Z] [RETRY] [03-01:task-3] attempt=1 status=failed type=verification_failed
[2026-01-26T14:30:00Z] [RETRY] [03-01:task-3] error="2 tests failed: null check, empty string"
[2026-01-26T14:30:00Z] [RETRY] [03-01:task-3] suggested_fix="Add validation for null and empty"
[2026-01-26T14:30:01Z] [RETRY] [03-01:task-3] injecting_feedback attempt=2
[2026-01-26T14:32:00Z] [RETRY] [03-01:task-3] attempt=2 status=failed type=verification_failed
[2026-01-26T14:32:00Z] [RETRY] [03-01:task-3] error="1 test failed: empty string"
[2026-01-26T14:35:00Z] [RETRY] [03-01:task-3] attempt=3 status=failed type=verification_failed
[2026-01-26T14:35:01Z] [RETRY] [03-01:task-3] escalating reason="max_retries_exceeded"
[2026-01-26T14:40:00Z] [RETRY] [03-01:task-3] user_response="skip"
[2026-01-26T14:40:00Z] [RETRY] [03-01:task-3] resolved status=skipped
"""

STORY: list[LogEntry] = [
    failed(1, 30, "2 tests failed: null check, empty string", "Add validation for null and empty"),
    FeedbackEntry(at=at(30, 1), task_id=TASK, attempt=2),
    failed(2, 32, "1 test failed: empty string"),
    failed(3, 35, ""),
    EscalationEntry(at=at(35, 1), task_id=TASK, attempts=3, reason="max_retries_exceeded"),
    AnswerEntry(at=at(40), task_id=TASK, response="skip"),
    ResolutionEntry(at=at(40), task_id=TASK, status="skipped"),
]


def test_the_log_equals_the_sample() -> None:
    """S1.53, S1.54, S1.56–S1.59"""
    assert "".join(line for each in STORY for line in retry_log.render_lines(each)) == LOG


def test_an_error_is_cut_to_200_characters_and_keeps_to_its_line() -> None:
    """S1.55"""
    said = 'x"\n[2026-01-26T14:30:00Z] [RETRY] [03-01:task-9] resolved status=done\n' + "y" * 300
    lines = retry_log.render_lines(failed(1, 30, said))
    assert len(lines) == 2 and all(line.count("\n") == 1 for line in lines)
    shown = lines[1].removeprefix(f"[2026-01-26T14:30:00Z] [RETRY] [{TASK}] error=")
    assert json.loads(shown) == said.replace("\n", " ")[:200]


JSONL = """\
{"timestamp":"2026-01-26T14:30:00Z","event":"attempt","task_id":"03-01:task-3","attempt":1,"status":"failed","failure_type":"verification_failed","error":"2 tests failed","duration_ms":45000}
{"timestamp":"2026-01-26T14:30:01Z","event":"feedback_injected","task_id":"03-01:task-3","attempt":2,"feedback_lines":15}
{"timestamp":"2026-01-26T14:32:00Z","event":"attempt","task_id":"03-01:task-3","attempt":2,"status":"failed","failure_type":"verification_failed","error":"1 test failed","duration_ms":42000}
{"timestamp":"2026-01-26T14:35:01Z","event":"escalated","task_id":"03-01:task-3","attempts":3,"reason":"max_retries_exceeded"}
{"timestamp":"2026-01-26T14:40:00Z","event":"resolved","task_id":"03-01:task-3","resolution":"skipped","total_attempts":3,"total_duration_ms":600000}
"""


def test_the_json_lines_equal_the_sample() -> None:
    """S1.60, S1.61; S1.62: every line parses alone"""
    story = [
        failed(1, 30, "2 tests failed", ms=45_000),
        FeedbackEntry(at=at(30, 1), task_id=TASK, attempt=2, feedback_lines=15),
        failed(2, 32, "1 test failed", ms=42_000),
        EscalationEntry(at=at(35, 1), task_id=TASK, attempts=3, reason="max_retries_exceeded"),
        AnswerEntry(at=at(40), task_id=TASK, response="skip"),
        ResolutionEntry(
            at=at(40), task_id=TASK, status="skipped", total_attempts=3, total_duration_ms=600_000
        ),
    ]
    assert "".join(line for each in story for line in retry_jsonl.render_lines(each)) == JSONL
    (line,) = retry_jsonl.render_lines(failed(1, 30, 'a\n"b"\u2028c'))
    assert len(line.splitlines()) == 1 and json.loads(line)["error"] == 'a\n"b"\u2028c'


# ---- retry-state.json

STATE = """\
{
  "task_retries": {
    "03-01:task-3": {
      "task_id": "03-01:task-3",
      "task_name": "Task 3: Create InvalidPlannerIdError class",
      "retry_count": 2,
      "max_retries": 3,
      "status": "retrying",
      "failures": [
        {
          "attempt": 1,
          "timestamp": "2026-01-26T14:30:00Z",
          "failure_type": "verification_failed",
          "error_summary": "2 tests failed",
          "suggested_fix": "Add null check"
        },
        {
          "attempt": 2,
          "timestamp": "2026-01-26T14:32:00Z",
          "failure_type": "verification_failed",
          "error_summary": "1 test failed",
          "suggested_fix": "Handle empty string case"
        }
      ],
      "current_attempt": 3,
      "started_at": "2026-01-26T14:28:00Z",
      "last_attempt_at": "2026-01-26T14:32:00Z"
    }
  },
  "global_stats": {
    "total_retries": 5,
    "successful_retries": 3,
    "escalations": 1
  }
}
"""


def entry(task_id: str = TASK) -> ActiveTask:
    return ActiveTask(
        task_id=task_id,
        task_name=NAME,
        retry_count=2,
        max_retries=3,
        status="retrying",
        failures=[
            AttemptFailure(1, at(30), VERIFICATION, "2 tests failed", "Add null check"),
            AttemptFailure(2, at(32), VERIFICATION, "1 test failed", "Handle empty string case"),
        ],
        current_attempt=3,
        started_at=at(28),
        last_attempt_at=at(32),
    )


def test_the_state_equals_the_sample() -> None:
    """S1.24, S1.25, S1.27"""
    assert "".join(retry_state.render_document([entry()], GlobalStats(5, 3, 1))) == STATE


@pytest.mark.parametrize("count", [0, 1, 3])
def test_the_state_is_one_object_for_any_number_of_tasks(count: int) -> None:
    entries = [entry(f"03-01:task-{n}") for n in range(count)]
    whole = json.loads("".join(retry_state.render_document(entries, GlobalStats(5, 3, 1))))
    assert list(whole["task_retries"]) == [each.task_id for each in entries]
    assert whole["global_stats"] == {"total_retries": 5, "successful_retries": 3, "escalations": 1}


def test_every_state_has_a_status() -> None:
    """S1.33: pending, executing, retrying, escalated, done, skipped"""
    told = {
        state: status_of(state, blocked_reason=None, retry_count=0)
        for state in TaskState
        if state not in (TaskState.FAILED, TaskState.ABORTED)
    }
    assert told == {
        "queued": "pending",
        "running": "executing",
        "retry": "retrying",
        "blocked": "pending",
        "escalated": "escalated",
        "done": "done",
        "skipped": "skipped",
    }
    assert status_of("blocked", blocked_reason="reported", retry_count=0) == "escalated"
    assert status_of("queued", blocked_reason=None, retry_count=3) == "retrying"


# ---- state.md

SKIPPED_TASKS = """\
skipped_tasks:
  - task: "03-01:task-3"
    reason: "User escalation - automated recovery failed"
    timestamp: "2026-01-26T14:40:00Z"
"""
SKIPPED = """\
[SKIPPED] Task 3: Create InvalidPlannerIdError class
  Reason: User escalation after 3 failed attempts
  Impact: Dependent tasks may fail
"""


def skip(**more: object) -> SkippedTask:
    values = {
        "escalation_reason": "max_retries_exceeded",
        "failures": 3,
        "dependents": ["03-01:task-4"],
    } | more
    return SkippedTask(task_id=TASK, name=NAME, at=at(40), **values)  # type: ignore[arg-type]


def test_a_skip_is_recorded_as_in_the_samples() -> None:
    """S1.50, S1.52"""
    assert state_md.render_record([skip()]) == SKIPPED_TASKS
    assert state_md.render_entry(skip()) == SKIPPED
    document = "".join(state_md.render_document([skip()]))
    assert f"```yaml\n{SKIPPED_TASKS}```" in document and SKIPPED in document
    assert yaml.safe_load(state_md.render_record([])) == {"skipped_tasks": []}


def test_a_skip_warns_about_its_dependents() -> None:
    """S1.51"""
    warned = "".join(state_md.render_document([skip(dependents=["03-01:task-4", "03-01:task-5"])]))
    assert "**Warning:** 03-01:task-4, 03-01:task-5 depend on 03-01:task-3" in warned
    alone = "".join(state_md.render_document([skip(dependents=[])]))
    assert "Warning" not in alone and "Impact" not in alone


def test_a_skip_shows_its_reason() -> None:
    assert (
        skip(escalation_reason="permission_denied").reason == "User escalation - permission denied"
    )
    assert skip(escalation_reason=None).reason == "User request"
    assert "Reason: User request\n" in state_md.render_entry(
        skip(escalation_reason=None, failures=0)
    )
    assert "after 1 failed attempt\n" in state_md.render_entry(skip(failures=1))


# ---- the plan's summary

SUMMARY = """\
## Retry Summary for Plan 03-01

| Metric | Value |
|--------|-------|
| Total tasks | 5 |
| First-attempt success | 3 (60%) |
| Retried tasks | 2 (40%) |
| Retry success | 1 |
| Escalations | 1 |
| Skipped | 1 |

### Retry Details

| Task | Attempts | Result |
|------|----------|--------|
| Task 1 | 1 | success |
| Task 2 | 2 | success (retry worked) |
| Task 3 | 3 | skipped (escalated) |
| Task 4 | 1 | success |
| Task 5 | 1 | success |

### Common Failure Patterns

- verification_failed: 4 occurrences
- Missing edge case handling: 3 occurrences
- Import errors: 1 occurrence
"""


def line(number: int, attempts: int, state: str = "done", escalations: int = 0) -> TaskSummary:
    return TaskSummary(
        id=UUID(int=number),
        task_id=f"03-01:task-{number}",
        label=f"Task {number}",
        title="",
        state=state,
        attempts=attempts,
        escalations=escalations,
        proof="claimed" if state == "done" else None,
    )


SAMPLE = Summary(
    ref="03-01",
    state="completed",
    tasks=[line(1, 1), line(2, 2), line(3, 3, "skipped", 1), line(4, 1), line(5, 1)],
    patterns={"Import errors": 1, VERIFICATION: 4, "Missing edge case handling": 3},
)


def test_the_summary_equals_the_sample() -> None:
    """S1.65–S1.68"""
    assert plan_summary.render_markdown(SAMPLE) == SUMMARY


def test_the_summary_as_json_has_the_same_figures() -> None:
    """S1.66–S1.69"""
    told = plan_summary.serialize_summary(SAMPLE)
    assert told["metrics"] == {
        "total_tasks": 5,
        "first_attempt_success": 3,
        "first_attempt_success_percent": 60,
        "retried_tasks": 2,
        "retried_tasks_percent": 40,
        "retry_success": 1,
        "escalations": 1,
        "skipped": 1,
    }
    assert told["tasks"][2] == {
        "id": str(UUID(int=3)),
        "task_id": TASK,
        "label": "Task 3",
        "title": "",
        "attempts": 3,
        "result": "skipped (escalated)",
        "proof": None,
    }
    assert told["proofs"] == {"proven": 0, "stale": 0, "claimed": 4, "person": 0}
    assert [each["name"] for each in told["patterns"]] == [
        VERIFICATION,
        "Missing edge case handling",
        "Import errors",
    ]


def test_the_name_of_a_task_stays_in_its_cell() -> None:
    odd = Summary(
        ref="03-01",
        state="active",
        tasks=[replace(line(1, 0, "queued"), label="a | b\n| c")],
        patterns={"no\n- such": 1},
    )
    text = plan_summary.render_markdown(odd)
    assert "| a \\| b \\| c | 0 | pending |\n" in text and "- no - such: 1 occurrence\n" in text
