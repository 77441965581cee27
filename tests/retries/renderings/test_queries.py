"""The renderings of tasks that went through these events."""

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
import yaml
from django.db import connection
from django.test.utils import CaptureQueriesContext

from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Failure, Need, Plan, Task
from ledger.tokens import TrustedCaller
from retries import claims
from retries.attempts import questions, releases
from retries.escalations import expiry
from retries.escalations.lifecycle import Question
from retries.models import Escalation
from retries.renderings import documents, plan_summary, scope, state_queries
from retries.renderings.scope import RenderingScope
from retries.tasks import actions as people
from tests.factories import MINUTE, NOW, make_agent, make_project
from tests.retries.escalations.test_task_effects import answer as answer_later
from tests.retries.escalations.test_task_effects import escalated, undo
from tests.retries.renderings.stories import (
    MARA,
    SECOND,
    add,
    answer,
    attempt,
    begin,
    end,
    make_plan,
    sample,
)
from tests.retries.renderings.test_formats import SUMMARY

pytestmark = pytest.mark.django_db
HOUR = 60 * MINUTE
DAY = 24 * HOUR


def text(plan: Plan, *, now: datetime = NOW + HOUR, **more: Any) -> list[str]:
    return "".join(
        documents.render_log(RenderingScope(plan.project_id, plan), now=now, **more)
    ).splitlines()


def objects(plan: Plan, *, now: datetime = NOW + HOUR, **more: Any) -> list[dict[str, Any]]:
    found = documents.render_jsonl(RenderingScope(plan.project_id, plan), now=now, **more)
    return [json.loads(line) for line in "".join(found).splitlines()]


def state(plan: Plan) -> dict[str, Any]:
    whole: dict[str, Any] = json.loads(
        "".join(documents.render_state(RenderingScope(plan.project_id, plan)))
    )
    return whole


def the_entry(plan: Plan) -> dict[str, Any]:
    (entry,) = state(plan)["task_retries"].values()
    return dict(entry)


# ---- the failure records

RECORD = """\
---
task_id: "03-01:task-1"
failure_record:
  attempt: 1
  timestamp: "2026-11-21T12:00:45Z"
  failure_type: "verification_failed"

  # From executor result
  executor_output:
    status: "failure"
    files_modified: ["src/domain/PlannerId.ts"]
    verification:
      command: "npm test -- PlannerId"
      exit_code: 1
      output_summary: "1 passed, 2 failed"
    error: "Cannot find module 'uuid'"

  # Analysis
  root_cause_guess: "Missing dependency"
  suggested_fix: "Run npm install uuid"

  # Context for next attempt
  files_state:
    - path: "src/domain/PlannerId.ts"
      status: "partially_modified"
      lines_changed: 15
"""


def records(plan: Plan, *, now: datetime = NOW + HOUR, **more: Any) -> str:
    return "".join(documents.render_records(RenderingScope(plan.project_id, plan), now=now, **more))


def test_a_failure_record_has_the_form_of_the_sample(agent: Agent) -> None:
    """SED-2, S1.12, S1.13, S1.14, S1.15"""
    plan = make_plan(agent)
    id = add(plan, agent, 1)
    output = {"command": "npm test -- PlannerId", "exit_code": 1, "output": "1 passed, 2 failed\n"}
    path = "src/domain/PlannerId.ts"
    attempt(
        agent,
        id,
        now=NOW,
        error="Cannot find module 'uuid'",
        exit_code=1,
        verification=output,
        root_cause_guess="Missing dependency",
        suggested_fix="Run npm install uuid",
        files_modified=[{"path": path, "status": "partially_modified", "lines_changed": 15}],
    )
    assert records(plan) == RECORD
    hostile = 'a: "b"\n--- \x85\u2028\ufeff\x7f € 😀 # c'
    attempt(agent, id, now=NOW + MINUTE, error=hostile)
    first, second = yaml.safe_load_all(records(plan))
    assert first["failure_record"]["executor_output"]["verification"]["exit_code"] == 1
    told = second["failure_record"]
    assert told["executor_output"]["error"] == Failure.objects.get(attempt__number=2).message
    assert (told["files_state"], told["executor_output"]["verification"]) == ([], None)
    assert records(plan, tail=1) == records(plan).removeprefix(RECORD)
    assert records(plan, now=NOW + 30 * DAY + MINUTE).startswith('---\ntask_id: "03-01:task-1"')
    assert records(plan, now=NOW + 31 * DAY) == ""  # S1.63


# ---- the logs


def test_a_skipped_task_in_the_log(agent: Agent) -> None:
    """S1.53–S1.59: in the order in which it happened, each entry with its task"""
    plan, _ = sample(agent)
    assert [line for line in text(plan) if "task-3]" in line] == [
        "[2026-11-21T12:00:45Z] [RETRY] [03-01:task-3] attempt=1 status=failed type=verification_failed",
        '[2026-11-21T12:00:45Z] [RETRY] [03-01:task-3] error="3 tests failed in PlannerId"',
        '[2026-11-21T12:00:45Z] [RETRY] [03-01:task-3] suggested_fix="Add a check"',
        "[2026-11-21T12:01:00Z] [RETRY] [03-01:task-3] injecting_feedback attempt=2",
        "[2026-11-21T12:01:45Z] [RETRY] [03-01:task-3] attempt=2 status=failed type=verification_failed",
        '[2026-11-21T12:01:45Z] [RETRY] [03-01:task-3] error="2 tests failed in PlannerId"',
        '[2026-11-21T12:01:45Z] [RETRY] [03-01:task-3] suggested_fix="Add a check"',
        "[2026-11-21T12:02:00Z] [RETRY] [03-01:task-3] injecting_feedback attempt=3",
        "[2026-11-21T12:02:45Z] [RETRY] [03-01:task-3] attempt=3 status=failed type=verification_failed",
        '[2026-11-21T12:02:45Z] [RETRY] [03-01:task-3] error="1 tests failed in PlannerId"',
        '[2026-11-21T12:02:45Z] [RETRY] [03-01:task-3] escalating reason="max_retries_exceeded"',
        '[2026-11-21T12:10:00Z] [RETRY] [03-01:task-3] user_response="skip"',
        "[2026-11-21T12:10:00Z] [RETRY] [03-01:task-3] resolved status=skipped",
    ]
    assert text(plan)[:2] == [
        "[2026-11-21T12:00:45Z] [RETRY] [03-01:task-1] attempt=1 status=success type=none",
        "[2026-11-21T12:00:45Z] [RETRY] [03-01:task-1] resolved status=done",
    ]


def test_a_skipped_task_in_json_lines(agent: Agent) -> None:
    """S1.60, S1.61"""
    plan, _ = sample(agent)
    lines = [line for line in objects(plan) if line["task_id"] == "03-01:task-3"]
    assert lines[:2] == [
        {
            "timestamp": "2026-11-21T12:00:45Z",
            "event": "attempt",
            "task_id": "03-01:task-3",
            "attempt": 1,
            "status": "failed",
            "failure_type": "verification_failed",
            "error": "3 tests failed\nin PlannerId",
            "duration_ms": 45_000,
        },
        {
            "timestamp": "2026-11-21T12:01:00Z",
            "event": "feedback_injected",
            "task_id": "03-01:task-3",
            "attempt": 2,
            "feedback_lines": 3,
        },
    ]
    assert lines[3]["feedback_lines"] == 6
    assert lines[-2:] == [
        {
            "timestamp": "2026-11-21T12:02:45Z",
            "event": "escalated",
            "task_id": "03-01:task-3",
            "attempts": 3,
            "reason": "max_retries_exceeded",
        },
        {
            "timestamp": "2026-11-21T12:10:00Z",
            "event": "resolved",
            "task_id": "03-01:task-3",
            "resolution": "skipped",
            "total_attempts": 3,
            "total_duration_ms": 600_000,
        },
    ]


EVENT_OF = {
    "attempt": "attempt",
    "injecting_feedback": "feedback_injected",
    "escalating": "escalated",
    "resolved": "resolved",
}


def test_both_logs_agree_in_order_and_counts(agent: Agent) -> None:
    """S1.62"""
    plan, _ = sample(agent)
    other = add(plan, agent, 6)
    releases.release(
        begin(agent, other, now=NOW), caller=TrustedCaller(SYSTEM, agent=agent), now=NOW
    )
    attempt(agent, other, now=NOW + HOUR, error="no", status="blocked", type=None)
    answer(other, "fix", fix="Use the key", now=NOW + HOUR * 2)
    attempt(agent, other, now=NOW + HOUR * 3, error="no way", code="impossible")
    answer(other, "retry", now=NOW + HOUR * 4)
    attempt(agent, other, now=NOW + HOUR * 5, error="still", non_retryable=True)
    answer(other, "abort", now=NOW + HOUR * 6)
    told = []
    for line in text(plan, now=NOW + DAY):
        at, _, task, body = line.split(" ", 3)
        if event := EVENT_OF.get(body.partition(" ")[0].partition("=")[0]):
            told.append((at[1:-1], task[1:-1], event))
    assert told == [
        (line["timestamp"], line["task_id"], line["event"]) for line in objects(plan, now=NOW + DAY)
    ]
    bodies = [line.split("] ")[3] for line in text(plan, now=NOW + DAY) if "task-6]" in line]
    assert bodies == [
        "attempt=1 status=released type=none",
        "injecting_feedback attempt=2",
        "attempt=2 status=blocked type=none",
        'error="no"',
        'escalating reason="blocked"',
        'user_response="fix"',
        "injecting_feedback attempt=3",
        "attempt=3 status=failed type=verification_failed",
        'error="no way"',
        'escalating reason="impossible"',
        'user_response="retry"',
        "injecting_feedback attempt=4",
        "attempt=4 status=failed type=verification_failed",
        'error="still"',
        'escalating reason="non_retryable"',
        'user_response="abort"',
        "resolved status=aborted",
    ]


@pytest.mark.parametrize(("told", "days", "later"), [(text, 7, 2), (objects, 30, 1)])
def test_a_log_covers_its_window_only(
    agent: Agent, told: Callable[..., list[Any]], days: int, later: int
) -> None:
    """S1.63: shown a tenth of a day before its end, gone a tenth of a day after; nothing purged"""
    plan, _ = sample(agent)
    whole = told(plan)
    first = NOW + 45 * SECOND
    assert told(plan, now=first + DAY * days - DAY / 10) == whole
    assert told(plan, now=first + DAY * days + DAY / 10) == []
    assert told(plan, now=NOW + DAY * days + MINUTE * 5) == whole[-later:]
    assert told(plan) == whole


def test_the_tail_is_the_end_of_the_whole(agent: Agent) -> None:
    """S1.64: the last entries"""
    plan, _ = sample(agent)
    for told in (text, objects):
        whole = told(plan)
        for most in (1, 2, 5, 50):
            for later in (10 * MINUTE, HOUR, 6 * DAY):
                assert told(plan, tail=most, now=NOW + later) == whole[-most:]


def test_a_task_without_a_ref_is_named_by_its_id(agent: Agent) -> None:
    from tests.retries.moves import make_task

    id = make_task(agent, title="Mend the parser", max_attempts=1)
    attempt(agent, id, now=NOW, error="it broke")
    about = RenderingScope(agent.project_id)
    lines = "".join(documents.render_log(about, now=NOW + HOUR)).splitlines()
    assert lines == [
        f"[2026-11-21T12:00:45Z] [RETRY] [{id}] attempt=1 status=failed type=verification_failed",
        f'[2026-11-21T12:00:45Z] [RETRY] [{id}] error="it broke"',
        f"[2026-11-21T12:00:45Z] [RETRY] [{id}] resolved status=failed",
    ]
    stranger = make_agent(project=make_project("other"))
    attempt(stranger, make_task(stranger), now=NOW, error="not ours")
    assert "".join(documents.render_log(about, now=NOW + HOUR)).splitlines() == lines


def test_a_plan_has_its_own_log_and_the_project_has_all(agent: Agent) -> None:
    one, _ = sample(agent)
    two = make_plan(agent, "03-02")
    attempt(agent, add(two, agent, 1), now=NOW + HOUR)
    assert [line.split(" ")[2] for line in text(two, now=NOW + DAY)] == ["[03-02:task-1]"] * 2
    whole = "".join(
        documents.render_log(RenderingScope(agent.project_id), now=NOW + DAY)
    ).splitlines()
    assert whole == text(one, now=NOW + DAY) + text(two, now=NOW + DAY)


def test_a_long_log_takes_few_statements(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, _ = sample(agent)
    with CaptureQueriesContext(connection) as small:
        whole = text(plan)
    monkeypatch.setattr(scope, "CHUNK_SIZE", 4)
    assert text(plan) == whole
    monkeypatch.undo()
    for number in range(6, 26):
        attempt(agent, add(plan, agent, number), now=NOW, error="no")
    with CaptureQueriesContext(connection) as large:
        assert len(text(plan)) > len(whole)
    assert len(large) == len(small) <= 5


# ---- the state


def test_the_state_of_an_active_task(agent: Agent) -> None:
    """S1.24–S1.26, S1.28–S1.31"""
    plan = make_plan(agent)
    task = add(plan, agent, 3, title="Create the class")
    assert state(plan)["task_retries"] == {}
    live = begin(agent, task, now=NOW)
    stamp = {"started_at": "2026-11-21T12:00:00Z", "last_attempt_at": "2026-11-21T12:00:00Z"}
    assert the_entry(plan) == stamp | {
        "task_id": "03-01:task-3",
        "task_name": "Task 3: Create the class",
        "retry_count": 0,
        "max_retries": 3,
        "status": "executing",
        "failures": [],
        "current_attempt": 1,
    }
    end(agent, live, now=NOW + MINUTE, error="2 tests failed", suggested_fix="Add null check")
    attempt(agent, task, now=NOW + MINUTE, error="1 test failed")
    entry = the_entry(plan)
    assert (entry["status"], entry["retry_count"], entry["current_attempt"]) == ("retrying", 2, 3)
    assert entry["last_attempt_at"] == "2026-11-21T12:01:45Z"
    assert entry["failures"] == [
        {
            "attempt": 1,
            "timestamp": "2026-11-21T12:01:00Z",
            "failure_type": "verification_failed",
            "error_summary": "2 tests failed",
            "suggested_fix": "Add null check",
        },
        {
            "attempt": 2,
            "timestamp": "2026-11-21T12:01:45Z",
            "failure_type": "verification_failed",
            "error_summary": "1 test failed",
            "suggested_fix": "",
        },
    ]
    attempt(agent, task, now=NOW + MINUTE * 3, error="no")
    entry = the_entry(plan)
    assert (entry["status"], entry["retry_count"], entry["current_attempt"]) == ("escalated", 3, 3)
    answer(task, "retry", now=NOW + MINUTE * 5)
    entry = the_entry(plan)
    assert (entry["status"], entry["retry_count"], entry["current_attempt"]) == ("pending", 0, 4)
    assert len(entry["failures"]) == 3
    attempt(agent, task, now=NOW + MINUTE * 6)
    assert state(plan)["task_retries"] == {}


def test_the_stats_follow_the_events(agent: Agent) -> None:
    """S1.27"""
    plan = make_plan(agent)
    tasks = [add(plan, agent, number) for number in (1, 2)]

    def figures() -> list[int]:
        return list(state(plan)["global_stats"].values())

    attempt(agent, tasks[0], now=NOW, error="no")
    assert figures() == [0, 0, 0]
    attempt(agent, tasks[0], now=NOW + MINUTE, error="no")
    assert figures() == [1, 0, 0]
    attempt(agent, tasks[0], now=NOW + MINUTE * 2)
    assert figures() == [2, 1, 0]
    attempt(agent, tasks[1], now=NOW, error="no", code="permission_denied")
    assert figures() == [2, 1, 1]


def test_a_skipped_task_stays_in_the_state_until_its_plan_ends(agent: Agent) -> None:
    plan, _ = sample(agent)
    entry = the_entry(plan)
    assert (entry["task_id"], entry["status"]) == ("03-01:task-3", "skipped")
    Plan.objects.update(completed_at=NOW)
    assert state(plan)["task_retries"] == {}


# ---- what was skipped, and the summary


def test_an_expired_skip_is_not_a_user_request(agent: Agent) -> None:
    """S1.50: an expiry that its asker set."""
    plan = make_plan(agent)
    task = add(plan, agent, 1)
    (row,) = claims.claim(TrustedCaller(SYSTEM, agent=agent), task=task, now=NOW).rows
    question = Question(text="Go on?", choices=[], expires_at=NOW + HOUR, on_expiry="fail")
    caller = TrustedCaller(SYSTEM, agent=agent)
    questions.ask(row["attempt_id"], question, caller=caller, now=NOW)
    Escalation.objects.update(on_expiry="skip")  # as agents could set it in early versions
    expiry.process_due(now=NOW + HOUR)
    told = "".join(documents.render_skips(RenderingScope(plan.project_id, plan)))
    assert 'reason: "User escalation - no answer in time"\n' in told


def test_skips_name_their_dependents(agent: Agent) -> None:
    """S1.50–S1.52"""
    plan = make_plan(agent)
    task = add(plan, agent, 3, title="Create the class")
    add(plan, agent, 4, needs=[task])
    for minute in range(3):
        attempt(agent, task, now=NOW + MINUTE * minute, error="no")
    answer(task, "skip", now=NOW + MINUTE * 40)
    people.skip([add(plan, agent, 5)], stamp=Stamp(MARA, NOW + MINUTE * 41))
    assert Need.objects.count() == 1
    told = "".join(documents.render_skips(RenderingScope(plan.project_id, plan)))
    assert (
        told
        == """# State

```yaml
skipped_tasks:
  - task: "03-01:task-3"
    reason: "User escalation - automated recovery failed"
    timestamp: "2026-11-21T12:40:00Z"
  - task: "03-01:task-5"
    reason: "User request"
    timestamp: "2026-11-21T12:41:00Z"
```

```
[SKIPPED] Task 3: Create the class
  Reason: User escalation after 3 failed attempts
  Impact: Dependent tasks may fail
```

**Warning:** 03-01:task-4 depends on 03-01:task-3 and may fail without it.

```
[SKIPPED] Task 5: Part 5
  Reason: User request
```
"""
    )


# the failures of the story also have a code
WITH_CODE = SUMMARY.replace("- Import", "- assertion: 3 occurrences\n- Import")


def test_the_summary_of_the_sample_s_plan(agent: Agent) -> None:
    """S1.65–S1.69"""
    plan, _ = sample(agent)
    assert plan_summary.render_markdown(state_queries.build_summary(plan)) == WITH_CODE


def test_the_summary_of_an_active_plan_excludes_releases(agent: Agent) -> None:
    """S1.69: at any time; an attempt that was given back is no attempt that failed"""
    plan = make_plan(agent)
    tasks = [add(plan, agent, number) for number in range(1, 4)]
    given = begin(agent, tasks[0], now=NOW)
    releases.release(given, caller=TrustedCaller(SYSTEM, agent=agent), now=NOW)
    attempt(agent, tasks[0], now=NOW)
    begin(agent, tasks[1], now=NOW)
    summary = state_queries.build_summary(plan)
    assert [(task.attempts, task.result) for task in summary.tasks] == [
        (1, "success"),
        (1, "executing"),
        (0, "pending"),
    ]
    assert (summary.first, summary.retried, summary.percent(summary.first)) == (1, 0, 33)
    assert "No attempt has failed." in plan_summary.render_markdown(summary)


def test_replaced_tasks_are_not_in_the_summary(agent: Agent) -> None:
    """S1.34: a new run begins with new counters; the logs keep the old ones"""
    plan = make_plan(agent)
    old = add(plan, agent, 1)
    attempt(agent, old, now=NOW, error="no")
    people.abort([old], stamp=Stamp(MARA, NOW + MINUTE))
    plan.run = 2
    new = add(plan, agent, 1)
    Task.objects.filter(pk=old).update(replaced_by_id=new)
    begin(agent, new, now=NOW + HOUR)
    entry = the_entry(plan)
    assert (entry["retry_count"], entry["failures"], entry["current_attempt"]) == (0, [], 1)
    assert state_queries.build_summary(plan).total == 1
    assert "resolved status=aborted" in text(plan)[-1]


def test_an_undone_answer_is_in_the_log(agent: Agent) -> None:
    asked = escalated(agent, attempts=1)
    undo(answer_later(asked, "retry", undo_for=10 * SECOND))
    whole = RenderingScope(agent.project_id)
    lines = "".join(documents.render_log(whole, now=NOW + HOUR)).splitlines()
    answers = [line.rpartition("] ")[2] for line in lines if "user_response" in line]
    assert answers == ['user_response="retry"', 'user_response="undo"']
    assert "undo" not in "".join(documents.render_jsonl(whole, now=NOW + HOUR))
