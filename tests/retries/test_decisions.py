"""The table of design.md §4, line by line and in its order."""

from typing import Any

import pytest

from ledger.states import FailureType, TaskState
from ledger.tasks.spec import Backoff
from retries.decisions import NEEDS, Case, Evidence, Policy, decide
from retries.failures.known_errors import BY_NAME, Action
from retries.states import Reason

FAILED: dict[str, Any] = {"status": "failure"}
LAST: dict[str, Any] = {"number": 3, "attempt_limit": 3}
TIMEOUT = FailureType.TIMEOUT
QUOTA = {"evidence": Evidence("credit balance is too low", "quota", "Quota or credit used up")}
LOGIN = {"evidence": Evidence("not logged in", "authentication", "Not authenticated")}
AGAIN = {"evidence": Evidence("1 failed", same_as=1)}
SOON = {"evidence": Evidence("quota, retry in 20s", "quota", "Quota", wait_s=20)}
LATE = {"evidence": Evidence("quota, resets in 9 days", "quota", "Quota", wait_s=9 * 86_400)}
LIMIT = {"evidence": Evidence("hit your limit", "usage_limit", "Limit", is_wait=True)}
BUSY = {"evidence": Evidence("overloaded", "overloaded", "Overloaded", is_wait=True)}
AWAY = {"evidence": Evidence("503", "service_away", "Service unavailable", is_wait=True)}
FULL = {"evidence": Evidence("No space left on device", "disk_full", "Disk full")}
SCOPE = {"evidence": Evidence("missing scope", "forbidden", "Forbidden")}
ON = {"policy": Policy(asks_at_once=True, obeys_waits=True, asks_on_same_failure=True)}


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
        # the project's policies
        (FAILED | QUOTA | ON, "escalated", "needs_quota", False),
        (FAILED | QUOTA | ON | LAST, "escalated", "needs_quota", False),
        (FAILED | LOGIN | ON, "escalated", "needs_credentials", False),
        (FAILED | AGAIN | ON, "escalated", "same_failure_again", True),
        (FAILED | AGAIN | ON | LAST, "escalated", "same_failure_again", True),
        (FAILED | FULL | ON, "escalated", "no_retry_helps", False),
        (FAILED | SCOPE | ON, "escalated", "needs_permission", False),
        (FAILED | LATE | ON, "escalated", "needs_quota", False),
        # a limit of the agent's account is no failure
        (FAILED | SOON | ON, "retry", "agent_waits", False),
        (FAILED | LIMIT | ON, "retry", "agent_waits", False),
        (FAILED | LIMIT | ON | LAST, "retry", "agent_waits", False),
        (FAILED | BUSY | ON | LAST, "retry", "agent_waits", False),
        (FAILED | LIMIT | ON | {"number": 2, "exit_code": 1}, "retry", "attempts_left", True),
        (FAILED | LIMIT | ON | {"type": TIMEOUT}, "retry", "attempts_left", True),
        (FAILED | LIMIT | LAST, "failed", "max_retries_exceeded", True),
        (FAILED | LIMIT | ON | {"abort_asked": True}, "aborted", "user_abort", False),
        (FAILED | AWAY | ON, "retry", "attempts_left", True),
        (FAILED | AWAY | ON | LAST, "failed", "max_retries_exceeded", True),
        (FAILED | QUOTA, "retry", "attempts_left", True),
        (FAILED | LOGIN, "retry", "attempts_left", True),
        (FAILED | AGAIN, "retry", "attempts_left", True),
        (FAILED | QUOTA | ON | {"non_retryable": True}, "failed", "non_retryable", True),
        (FAILED | QUOTA | ON | {"code": "impossible"}, "escalated", "impossible", False),
        (FAILED | QUOTA | ON | {"abort_asked": True}, "aborted", "user_abort", False),
        ({"status": "blocked"} | QUOTA | ON, "blocked", "blocked", False),
        ({"status": "success"} | QUOTA | ON, "done", "reported", False),
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
        (FAILED | LIMIT | ON, False),
        (FAILED | BUSY | ON, False),
        (FAILED | AWAY | ON, True),
        ({"status": "success", "exit_code": 124}, False),
        (FAILED | {"type": TIMEOUT, "exit_code": 137}, False),
    ],
)
def test_the_breaker_hears_only_what_is_about_the_agent(
    case: dict[str, Any], is_about_agent: bool
) -> None:
    assert decide(Case(**case)).is_about_agent is is_about_agent


@pytest.mark.parametrize(
    ("named", "asked", "on", "waits"),
    [
        (20.5, None, True, 20.5),
        (20, 3, True, 3),
        (7200, None, True, 7200),
        (9 * 86_400, None, True, 8 * 86_400),
        (0, None, True, 0),
        (20, None, False, 5),
        (None, None, True, 60),
    ],
)
def test_a_rate_limit_waits_as_long_as_it_says(
    named: float | None, asked: int | None, on: bool, waits: float
) -> None:
    """At most 8 days; what the agent asks for comes first, and the backoff last."""
    case = Case(
        status="failure",
        evidence=Evidence("429 Too Many Requests", "rate_limit", "Rate limit", named, is_wait=True),
        policy=Policy(obeys_waits=on),
        retry_after_s=asked,
        backoff=Backoff(base_delay_ms=5000, jitter=False),
    )
    decision = decide(case)
    assert (decision.to, decision.delay_s) == (TaskState.RETRY, waits)
    assert decision.evidence == (case.evidence if on else None)


@pytest.mark.parametrize(("retries", "waits"), [(0, 60), (1, 120), (3, 480), (4, 900), (99, 900)])
def test_a_service_that_is_away_is_asked_again_later_each_time(retries: int, waits: float) -> None:
    """RTY-6"""
    decision = decide(Case(status="failure", retry_count=retries, attempt_limit=200, **AWAY, **ON))
    assert (decision.to, decision.delay_s, decision.counts) == (TaskState.RETRY, waits, True)


def test_the_known_errors_that_ask_say_so_in_their_table() -> None:
    assert {BY_NAME[name].action for name in NEEDS} == {Action.ASK}
    assert set(NEEDS.values()) <= set(Reason)
