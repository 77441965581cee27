"""The table of design.md §4, line by line and in its order."""

from typing import Any

import pytest

from ledger.states import FailureType, TaskState
from retries.decisions import Case, decide

FAILED: dict[str, Any] = {"status": "failure"}
LAST: dict[str, Any] = {"number": 3, "attempt_limit": 3}
TIMEOUT = FailureType.TIMEOUT


@pytest.mark.parametrize(
    ("case", "to", "reason", "counts"),
    [
        ({"status": "success"}, "done", "reported", False),
        ({"status": "success", "exit_code": 0}, "done", "verified", False),
        ({"status": "success", "exit_code": 3, "expect_exit": 3}, "done", "verified", False),
        ({"status": "success", "exit_code": 1}, "retry", "attempts_left", True),
        ({"status": "success", "abort_asked": True}, "aborted", "user_abort", False),
        (FAILED | {"abort_asked": True}, "aborted", "user_abort", False),
        (FAILED | {"code": "malformed_task"}, "failed", "malformed_task", False),
        (
            FAILED | {"code": "malformed_task", "on_exhausted": "escalate"},
            "failed",
            "malformed_task",
            False,
        ),
        (FAILED | {"code": "permission_denied"}, "escalated", "permission_denied", False),
        (FAILED | {"code": "impossible"} | LAST, "escalated", "impossible", False),
        (
            {"status": "blocked", "code": "conflicting_requirements"},
            "escalated",
            "conflicting_requirements",
            False,
        ),
        (
            FAILED | {"code": "service_unavailable", "in_plan": True},
            "escalated",
            "service_unavailable",
            False,
        ),
        (FAILED | {"code": "service_unavailable"}, "retry", "attempts_left", True),
        ({"status": "blocked"}, "blocked", "blocked", False),
        ({"status": "blocked"} | LAST, "blocked", "blocked", False),
        (FAILED | {"type": TIMEOUT, "idempotent": False}, "escalated", "needs_confirmation", True),
        (FAILED | {"type": TIMEOUT}, "retry", "attempts_left", True),
        (FAILED | {"exit_code": 124, "idempotent": False}, "retry", "attempts_left", True),
        ({"status": "success", "exit_code": 137} | LAST, "failed", "max_retries_exceeded", True),
        (FAILED | {"idempotent": False}, "retry", "attempts_left", True),
        (FAILED | {"non_retryable": True}, "failed", "non_retryable", True),
        (
            FAILED | {"non_retryable": True, "on_exhausted": "escalate"},
            "escalated",
            "non_retryable",
            True,
        ),
        (FAILED | {"number": 2, "attempt_limit": 3}, "retry", "attempts_left", True),
        (FAILED | LAST, "failed", "max_retries_exceeded", True),
        (FAILED | LAST | {"on_exhausted": "escalate"}, "escalated", "max_retries_exceeded", True),
        (FAILED | {"number": 4, "attempt_limit": 6}, "retry", "attempts_left", True),
    ],
)
def test_the_first_line_that_matches_decides(
    case: dict[str, Any], to: str, reason: str, counts: bool
) -> None:
    """S1.4-11, S3.11-13"""
    decision = decide(Case(**case))
    assert (decision.to, decision.reason, decision.counts) == (TaskState(to), reason, counts)


@pytest.mark.parametrize(
    ("case", "type"),
    [
        ({"status": "success"}, None),
        ({"status": "blocked"}, None),
        ({"status": "success", "exit_code": 1}, "verification_failed"),
        (FAILED, "execution_error"),
        (FAILED | {"type": TIMEOUT}, "timeout"),
        (FAILED | {"type": FailureType.ARCHITECT_REJECTED}, "architect_rejected"),
        ({"status": "success", "exit_code": 124}, "timeout"),
        ({"status": "success", "exit_code": 137}, "timeout"),
        ({"status": "success", "exit_code": 124, "expect_exit": 124}, None),
        (FAILED | {"type": FailureType.VERIFICATION_FAILED, "exit_code": 137}, "timeout"),
        (FAILED | {"type": TIMEOUT, "exit_code": 0}, "timeout"),
    ],
)
def test_the_type_of_a_failure(case: dict[str, Any], type: str | None) -> None:
    assert Case(**case).failure_type == type


@pytest.mark.parametrize(
    ("case", "is_about_agent"),
    [
        (FAILED, True),
        (FAILED | {"type": TIMEOUT}, True),
        (FAILED | {"code": "service_unavailable"}, True),
        (FAILED | {"code": "permission_denied"}, False),
        (FAILED | {"code": "conflicting_requirements"}, False),
        (FAILED | {"code": "impossible"}, False),
        (FAILED | {"code": "malformed_task"}, False),
        ({"status": "success", "exit_code": 124}, False),
        (FAILED | {"type": TIMEOUT, "exit_code": 137}, False),
    ],
)
def test_the_breaker_hears_only_what_is_about_the_agent(
    case: dict[str, Any], is_about_agent: bool
) -> None:
    assert decide(Case(**case)).is_about_agent is is_about_agent
