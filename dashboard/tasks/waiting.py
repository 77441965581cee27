"""Describe what a task waits for, in a few words for the list (pure)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dashboard.agents.presence import breaker_state
from dashboard.wording.formatting import counted, duration
from dashboard.wording.status_text import AHEAD_CAP, StatusText
from ledger.models.budget import FOREVER
from ledger.models.plan import PlanState
from ledger.states import BlockedReason, BreakerState, TaskState
from ledger.values.text import truncate
from retries.states import Reason

TITLE_LENGTH = 17
# why a task needs a person; for other reasons, the number of failed attempts says more
ASKED = {
    Reason.AGENT_QUESTION: "question",
    Reason.QUESTIONS_EXHAUSTED: "question",
    Reason.NEEDS_CONFIRMATION: "confirmation",
    Reason.PERMISSION_DENIED: "permission",
    Reason.NEEDS_CREDENTIALS: "credentials",
    Reason.NEEDS_QUOTA: "quota",
    Reason.NEEDS_PERMISSION: "permission",
    Reason.CONFLICTING_REQUIREMENTS: "conflict",
    Reason.SERVICE_UNAVAILABLE: "service",
    Reason.IMPOSSIBLE: "impossible",
    Reason.BLOCKED: "blocked",
    Reason.UNPROVEN: "no proof",
    Reason.BUDGET_USED: "budget",
}


@dataclass(frozen=True, slots=True)
class Hold:
    """The reason why a task that waits is not handed out: for the list, and as a clause."""

    short: str
    clause: str
    icon: str
    until: datetime | None = None

    @property
    def status(self) -> StatusText:
        return StatusText(f"on hold, {self.short}", "calm", self.icon)


def find_hold(row: Any, *, now: datetime) -> Hold | None:
    """Return what holds back a task that is queued or to be retried, or None."""
    if row.state not in (TaskState.QUEUED, TaskState.RETRY):
        return None
    name = row.agent.name
    if row.type in (row.project.paused_types or ()):
        return Hold("type paused", f"the type {row.type} is paused", "pause")
    if row.plan and row.plan.state == PlanState.PAUSED:
        return Hold("plan paused", "its plan is paused", "pause")
    if row.not_before and row.not_before > now:
        return Hold("not started", "it does not start", "clock", row.not_before)
    if row.plan and (start := row.plan.not_before) and start > now:
        return Hold("plan not started", "its plan does not start", "clock", start)
    if hold := find_budget_hold(row, now=now):
        return hold
    # A retry that waits for one member of a pool is held back by a pause of either.
    for queue in (row.agent, row.pool):
        if queue and queue.paused:
            return Hold(f"{queue.name} paused", f"{queue.name} is paused", "pause")
    if (until := row.agent.waits_until) and until > now:
        clause = f"{name} waits for a limit of its account"
        if row.agent.account:
            clause += f" {row.agent.account}"
        return Hold(f"{name} at a limit", clause, "clock", until)
    if breaker_state(row.agent) == BreakerState.OPEN:
        return Hold(f"{name} open", f"the breaker for {name} is open", "c-open")
    return None


def find_budget_hold(row: Any, *, now: datetime) -> Hold | None:
    """Return the budget that is used up: the task's own, its plan's or its project's; or None."""
    for whose, owner in (("its", row), ("its plan’s", row.plan), ("its project’s", row.project)):
        until = owner.spent_until if owner else None
        if until and until > now:
            clause = f"{whose} budget is used up"
            return Hold("budget used up", clause, "clock", until if until < FOREVER else None)
    return None


def describe_status(row: Any, *, now: datetime) -> StatusText:
    # `row` has the extras of `dashboard.tasks.queries`.
    match row.state:
        case TaskState.QUEUED:
            return describe_queued(row, now=now)
        case TaskState.RUNNING:
            return describe_running(row, now=now)
        case TaskState.RETRY:
            return describe_retry(row, now=now)
        case TaskState.BLOCKED:
            return describe_blocked(row, now=now)
        case TaskState.ESCALATED:
            return describe_escalated(row)
        case TaskState.DONE if row.started_at:
            return StatusText(
                f"took {duration(row.completed_at - row.started_at)}", "calm", "check"
            )
        case TaskState.FAILED:
            return describe_failed(row)
    if not row.attempts:
        return StatusText("before it ran")
    return StatusText(f"after {counted(row.attempts, 'attempt')}")


def describe_escalated(row: Any) -> StatusText:
    asked = getattr(row, "asked", None)
    if not asked:
        return StatusText("needs you", "red", "person")
    failed = f"{row.attempts} of {row.attempt_limit} failed"
    return StatusText(ASKED.get(asked, failed))


def describe_queued(row: Any, *, now: datetime) -> StatusText:
    if hold := find_hold(row, now=now):
        return hold.status
    if row.place is None:
        return StatusText(f"{AHEAD_CAP - 1}+ ahead", "calm", "clock")
    first = row.place == 1
    return StatusText(
        f"1st for {row.agent.name}" if first else f"{row.place - 1} ahead", "calm", "clock"
    )


def describe_running(row: Any, *, now: datetime) -> StatusText:
    if row.abort_requested_at:
        return StatusText("stop requested", "amber", "s-aborted")
    if row.lease_ends_at and row.lease_ends_at < now:
        return StatusText("lease expired", "amber", "clock")
    since = row.running_since or row.updated_at
    return StatusText("running for", "calm", "beat", since=since)


def describe_retry(row: Any, *, now: datetime) -> StatusText:
    left = (row.due_at - now).total_seconds()
    if hold := find_hold(row, now=now):
        return hold.status
    if left <= 0:
        return StatusText("due now", "amber", "clock")
    return StatusText("due in", "amber", "clock", countdown=max(round(left), 0))


def describe_blocked(row: Any, *, now: datetime) -> StatusText:
    match row.blocked_reason:
        case BlockedReason.BREAKER_OPEN:
            return StatusText(f"on hold, {row.agent.name} open", "calm", "c-open")
        case BlockedReason.NOT_BEFORE:
            left = max(round((row.not_before - now).total_seconds()), 0)
            return StatusText("starts in", "calm", "clock", countdown=left)
        case BlockedReason.REPORTED:
            return StatusText(str(BlockedReason.REPORTED.label), "red", "person")
        case BlockedReason.DEPENDENCY_SKIPPED:
            return StatusText("a need was skipped", "amber", "dep")
    if row.need_ended:
        verb = "failed" if row.need_ended == TaskState.FAILED else "was aborted"
        return StatusText(f"a need {verb}", "red", "dep")
    if row.unmet > 1:
        return StatusText(f"waiting for {counted(row.unmet, 'task')}", "calm", "dep")
    title = row.waits_for or "another task"
    return StatusText(f"waiting for {truncate(title, TITLE_LENGTH)}", "calm", "dep")


def describe_failed(row: Any) -> StatusText:
    letter = getattr(row, "dead_letter", None)
    if letter is None or letter.closed_as is None:
        return StatusText("dead letter", "red", "n-dead")
    return StatusText(f"dead letter {letter.closed_as}", "calm", "n-dead")
