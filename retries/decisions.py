"""Decisions about ended attempts (pure): the first row of one table that matches decides."""

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from ledger.states import FailureType, Proof, TaskState
from ledger.tasks.spec import Backoff
from ledger.values.account_windows import MOST_WAIT

# codes that no further attempt can fix: a person is asked, with the code as the reason
HOPELESS = ("permission_denied", "conflicting_requirements", "impossible")
UNAVAILABLE = "service_unavailable"
MALFORMED = "malformed_task"
# known errors that no further attempt can fix, with the reason to ask a person
NEEDS = {
    "quota": "needs_quota",
    "authentication": "needs_credentials",
    "missing_token": "needs_credentials",
    "forbidden": "needs_permission",
    "protected_branch": "needs_permission",
    "disk_full": "no_retry_helps",
    "context_too_long": "no_retry_helps",
}
# known errors that say that the agent's account is at a limit; a quota does if it names its reset
LIMITS = ("usage_limit", "rate_limit", "overloaded")
AGENT_WAITS = "agent_waits"
BUDGET_USED = "budget_used"
MOST_LIMIT_S = MOST_WAIT.total_seconds()  # the longest wait of an agent
# a wait without a stated time: the first, and the longest after it has doubled
FIRST_WAIT_S, MOST_STEP_S = 60, 900
SAME_FAILURE_AGAIN = "same_failure_again"
MOST_WAIT_S = 900.0  # the longest wait of a task that an error's text can ask for
# the exit codes of `timeout` and of a program that was killed
KILLED = (124, 137)
UNPROVEN = "unproven"
# the reasons of a success: a verification ran, or the agent says so
VERIFIED, REPORTED = "verified", "reported"


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence in a failure for a decision.

    It is the telling line, the known error, and the attempt with the same signature after which no
    file has changed.
    """

    line: str = ""
    known_error: str = ""
    title: str = ""
    wait_s: float | None = None
    same_as: int | None = None
    is_wait: bool = False  # if the known error says to wait


@dataclass(frozen=True, slots=True)
class Policy:
    """Which policies of the project are on for the task."""

    asks_at_once: bool = False
    obeys_waits: bool = False
    asks_on_same_failure: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Everything a decision depends on, of the report and of the task.

    `exit_code` is the verification's, or None if none ran.
    """

    status: str  # success, failure or blocked
    type: FailureType | None = None
    code: str = ""
    exit_code: int | None = None
    expect_exit: int = 0
    proof: Proof = Proof.CLAIMED
    requires_proof: bool = False
    non_retryable: bool = False
    abort_asked: bool = False
    stop_asked: bool = False  # a budget was used up before the report
    in_plan: bool = False
    idempotent: bool = True
    number: int = 1
    attempt_limit: int = 3
    on_exhausted: str = "dead_letter"
    retry_count: int = 0
    retry_after_s: int | None = None
    backoff: Backoff = field(default_factory=Backoff)
    evidence: Evidence = Evidence()
    policy: Policy = Policy()

    @property
    def needs(self) -> str:
        """Return the policy's reason to ask a person at once for what is missing; else empty."""
        if not self.policy.asks_at_once or self.is_back_soon:
            return ""
        return NEEDS.get(self.evidence.known_error, "")

    @property
    def is_back_soon(self) -> bool:
        # Only a quota that names its reset can be waited for.
        wait_s = self.evidence.wait_s
        is_named = self.evidence.known_error == "quota" and wait_s is not None
        return self.policy.obeys_waits and is_named and (wait_s or 0) <= MOST_LIMIT_S

    @property
    def is_limit(self) -> bool:
        # In a verification's output, or after a timeout, the limit may be another service's, not
        # the agent's account's.
        says = self.evidence.known_error in LIMITS and self.policy.obeys_waits
        is_own = self.exit_code is None and self.failure_type == FailureType.EXECUTION_ERROR
        return is_own and (says or self.is_back_soon)

    @property
    def is_same_again(self) -> bool:
        return self.policy.asks_on_same_failure and self.evidence.same_as is not None

    @property
    def named_wait_s(self) -> float | None:
        """Return the wait that the error asks for, up to the maximum; None if it asks for none."""
        # Without a stated time the wait is a minute, and doubles with each retry of the task.
        if not self.policy.obeys_waits:
            return None
        if self.evidence.wait_s is not None:
            return min(self.evidence.wait_s, MOST_LIMIT_S if self.is_limit else MOST_WAIT_S)
        if not self.evidence.is_wait:
            return None
        doublings = 0 if self.is_limit else min(self.retry_count, 10)
        return float(min(FIRST_WAIT_S * 2**doublings, MOST_STEP_S))

    @property
    def is_unverified(self) -> bool:
        return self.exit_code is not None and self.exit_code != self.expect_exit

    @property
    def lacks_proof(self) -> bool:
        is_success = self.status == "success" and not self.is_unverified
        return is_success and self.requires_proof and self.proof != Proof.PROVEN

    @property
    def has_failed(self) -> bool:
        return self.status == "failure" or (self.status == "success" and self.is_unverified)

    @property
    def is_verification_timeout(self) -> bool:
        return self.has_failed and self.is_unverified and self.exit_code in KILLED

    @property
    def is_stopped(self) -> bool:
        # The agent is asked to stop at its next step. A check that failed has failed all the same.
        return (
            self.stop_asked
            and self.status == "failure"
            and self.exit_code is None
            and (self.failure_type == FailureType.EXECUTION_ERROR)
        )

    @property
    def is_about_agent(self) -> bool:
        # A missing proof, these codes, and a verification's timeout say something about the task
        # alone.
        if self.lacks_proof:
            return False
        return self.code not in (*HOPELESS, MALFORMED) and not self.is_verification_timeout

    @property
    def failure_type(self) -> FailureType | None:
        if not self.has_failed:
            return None
        if self.is_verification_timeout:
            return FailureType.TIMEOUT
        if self.status == "success":
            return FailureType.VERIFICATION_FAILED
        return self.type or FailureType.EXECUTION_ERROR


@dataclass(frozen=True, slots=True)
class Decision:
    """The next state of the task, with the reason and the time.

    `counts` adds a retry to the round; without `is_about_agent` the agent's breaker ignores it.
    With `agent_waits` the attempt is no failure, and its agent gets no task during the delay. With
    `is_stopped` it is none either: the task waits for a budget.
    """

    to: TaskState
    reason: str
    counts: bool = False
    is_about_agent: bool = True
    failure_type: FailureType | None = None
    delay_s: float = 0.0
    evidence: Evidence | None = None  # if the decision rests on it
    agent_waits: bool = False
    is_stopped: bool = False
    proof: Proof | None = None  # if the task is done


def exhausted(case: Case, reason: str, *, counts: bool = True) -> Decision:
    escalates = case.on_exhausted == "escalate"
    return Decision(TaskState.ESCALATED if escalates else TaskState.FAILED, reason, counts)


TABLE: list[tuple[Callable[[Case], bool], Callable[[Case], Decision]]] = [
    (lambda c: c.abort_asked, lambda c: Decision(TaskState.ABORTED, "user_abort")),
    (lambda c: c.lacks_proof, lambda c: Decision(TaskState.ESCALATED, UNPROVEN)),
    (
        lambda c: c.status == "success" and not c.is_unverified,
        lambda c: Decision(
            TaskState.DONE, REPORTED if c.exit_code is None else VERIFIED, proof=c.proof
        ),
    ),
    (lambda c: c.code == MALFORMED, lambda c: Decision(TaskState.FAILED, MALFORMED)),
    (
        lambda c: c.code in HOPELESS or (c.code == UNAVAILABLE and c.in_plan),
        lambda c: Decision(TaskState.ESCALATED, c.code),
    ),
    (lambda c: c.is_stopped, lambda c: Decision(TaskState.RETRY, BUDGET_USED, is_stopped=True)),
    (lambda c: c.status == "blocked", lambda c: Decision(TaskState.BLOCKED, "blocked")),
    (
        lambda c: (
            c.failure_type == FailureType.TIMEOUT
            and not c.is_verification_timeout
            and not c.idempotent
        ),
        lambda c: Decision(TaskState.ESCALATED, "needs_confirmation", counts=True),
    ),
    (lambda c: c.non_retryable, lambda c: exhausted(c, "non_retryable")),
    # A limit says the same again, and no file changes.
    (
        lambda c: c.is_limit,
        lambda c: Decision(TaskState.RETRY, AGENT_WAITS, evidence=c.evidence, agent_waits=True),
    ),
    (
        lambda c: c.is_same_again,
        lambda c: Decision(
            TaskState.ESCALATED, SAME_FAILURE_AGAIN, counts=True, evidence=c.evidence
        ),
    ),
    (
        lambda c: bool(c.needs),
        lambda c: Decision(TaskState.ESCALATED, c.needs, evidence=c.evidence),
    ),
    (
        lambda c: c.number < c.attempt_limit,
        lambda c: Decision(TaskState.RETRY, "attempts_left", counts=True),
    ),
    (lambda c: True, lambda c: exhausted(c, "max_retries_exceeded")),
]


def decide(case: Case) -> Decision:
    """Return the decision about an attempt that has ended.

    >>> decide(Case(status="failure", number=3, attempt_limit=3)).to.value
    'failed'
    """
    decision = next(then(case) for matches, then in TABLE if matches(case))
    is_retry = decision.to == TaskState.RETRY
    delay = next_delay_s(case) if is_retry and not decision.is_stopped else 0.0
    if (
        is_retry
        and not decision.is_stopped
        and case.retry_after_s is None
        and case.named_wait_s is not None
    ):
        decision = replace(decision, evidence=case.evidence)
    is_no_failure = decision.agent_waits or decision.is_stopped
    return replace(
        decision,
        failure_type=None if is_no_failure else case.failure_type,
        delay_s=delay,
        is_about_agent=case.is_about_agent and not is_no_failure,
    )


def next_delay_s(case: Case) -> float:
    # The agent's own wait comes first, then the error's, and then the backoff.
    if case.retry_after_s is not None:
        return float(case.retry_after_s)
    if case.named_wait_s is not None:
        return case.named_wait_s
    return round(delay_s(case.backoff, case.retry_count), 3)


# ---- backoff


class HasBackoff(Protocol):
    """The four numbers of a backoff, as tasks and the retry strategy have them."""

    @property
    def base_delay_ms(self) -> float: ...
    @property
    def max_delay_ms(self) -> float: ...
    @property
    def exponential_base(self) -> float: ...
    @property
    def jitter(self) -> bool: ...


def delay_s(
    backoff: HasBackoff, n: int, *, uniform: Callable[[float, float], float] = random.uniform
) -> float:
    """Return the seconds to wait before retry `n`, counted from 0.

    The longest wait is one and a half times the cap.

    >>> [delay_s(Backoff(jitter=False), n) for n in (0, 1, 2, 3, 100_000)]
    [0.1, 0.2, 0.4, 0.8, 30.0]
    """
    try:
        factor = float(backoff.exponential_base) ** n
    except OverflowError:
        factor = sys.float_info.max
    delay_ms = min(backoff.base_delay_ms * factor, backoff.max_delay_ms)
    # Jitter comes after the cap, so that retries at the cap do not all come due at once.
    if backoff.jitter:
        delay_ms *= uniform(0.5, 1.5)
    return delay_ms / 1000
