"""What comes after an attempt (pure): one table, and the first line that matches decides."""

from collections.abc import Callable
from dataclasses import dataclass

from ledger.states import FailureType, TaskState

# codes that no further attempt can cure: a person is asked, each with its own reason
HOPELESS = ("permission_denied", "conflicting_requirements", "impossible")
UNAVAILABLE = "service_unavailable"
MALFORMED = "malformed_task"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Everything a decision looks at: what was reported of an attempt, and its task."""

    status: str  # success, failure or blocked
    type: FailureType | None = None
    code: str = ""
    exit_code: int | None = None
    expect_exit: int = 0
    non_retryable: bool = False
    abort_asked: bool = False
    in_plan: bool = False
    idempotent: bool = True
    number: int = 1
    attempt_limit: int = 3
    on_exhausted: str = "dead_letter"

    @property
    def is_unverified(self) -> bool:
        return self.exit_code is not None and self.exit_code != self.expect_exit

    @property
    def has_failed(self) -> bool:
        return self.status == "failure" or (self.status == "success" and self.is_unverified)

    @property
    def failure_type(self) -> FailureType | None:
        """The type that was reported, or what the exit code says."""
        if not self.has_failed:
            return None
        if self.status == "success":
            return FailureType.VERIFICATION_FAILED
        return self.type or FailureType.EXECUTION_ERROR


@dataclass(frozen=True, slots=True)
class Decision:
    """Where the task goes, why, and whether the attempt counts as a failure of the round."""

    to: TaskState
    reason: str
    counts: bool = False


def exhausted(case: Case, reason: str, *, counts: bool = True) -> Decision:
    escalates = case.on_exhausted == "escalate"
    return Decision(TaskState.ESCALATED if escalates else TaskState.FAILED, reason, counts)


TABLE: list[tuple[Callable[[Case], bool], Callable[[Case], Decision]]] = [
    (
        lambda c: c.abort_asked,
        lambda c: Decision(TaskState.ABORTED, "user_abort"),
    ),
    (
        lambda c: c.status == "success" and not c.is_unverified,
        lambda c: Decision(TaskState.DONE, "verified"),
    ),
    (
        lambda c: c.code == MALFORMED,
        lambda c: Decision(TaskState.FAILED, MALFORMED),
    ),
    (
        lambda c: c.code in HOPELESS or (c.code == UNAVAILABLE and c.in_plan),
        lambda c: Decision(TaskState.ESCALATED, c.code),
    ),
    (
        lambda c: c.status == "blocked",
        lambda c: Decision(TaskState.BLOCKED, "blocked"),
    ),
    (
        lambda c: c.failure_type == FailureType.TIMEOUT and not c.idempotent,
        lambda c: Decision(TaskState.ESCALATED, "needs_confirmation", counts=True),
    ),
    (
        lambda c: c.non_retryable,
        lambda c: exhausted(c, "non_retryable"),
    ),
    (
        lambda c: c.number < c.attempt_limit,
        lambda c: Decision(TaskState.RETRY, "attempts_left", counts=True),
    ),
    (
        lambda c: True,
        lambda c: exhausted(c, "max_retries_exceeded"),
    ),
]


def decide(case: Case) -> Decision:
    """The decision of design.md §4.

    >>> decide(Case(status="failure", number=3, attempt_limit=3)).to.value
    'failed'
    """
    return next(then(case) for when, then in TABLE if when(case))
