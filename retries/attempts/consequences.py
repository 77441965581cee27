"""What follows the end of an attempt: its failure, the breaker, a dead letter, an escalation."""

from datetime import datetime
from typing import Any

from ledger import needs
from ledger.journal import Actor
from ledger.models import Failure
from ledger.sql import Row
from ledger.states import FailureType, TaskState
from ledger.tokens import TrustedCaller
from retries import breaker, checkpoints, deadletters
from retries.attempts.report_fields import MESSAGE_LENGTH, Report
from retries.decisions import Decision
from retries.escalations import lifecycle
from retries.failures import grouping


def follow(
    row: Row,
    moved: Row,
    decision: Decision,
    report: Report,
    *,
    error: str,
    caller: TrustedCaller,
    now: datetime,
) -> dict[str, Any]:
    """Write what belongs to the move of a task; return what the agent is told about it.

    `row` is the attempt with its task before the move, `moved` the task after it.
    """
    actor, request_id = caller.actor, caller.request_id
    if decision.failure_type:
        record_failure(
            row,
            decision.failure_type,
            report,
            error=error,
            actor=actor,
            now=now,
            request_id=request_id,
        )
    if report.status != "blocked" and decision.to != TaskState.ABORTED:
        breaker.record_outcome(
            row["agent_id"],
            ok=decision.to == TaskState.DONE,
            failure_type=decision.failure_type,
            attempt_id=row["attempt_id"],
            actor=actor,
            now=now,
            request_id=request_id,
        )
    match decision.to:
        case TaskState.DONE:
            needs.meet([row["id"]], caller=caller, now=now)
            checkpoints.ask_after([row["id"]], actor=actor, now=now, request_id=request_id)
        case TaskState.FAILED:
            deadletters.bury(moved, decision.reason, error=error, now=now)
        case TaskState.ESCALATED | TaskState.BLOCKED:
            opened = lifecycle.open_for_task(
                moved, decision.reason, actor=actor, now=now, request_id=request_id
            )
            return {"escalation": {"id": str(opened.id)}}
    return {}


def record_failure(
    row: Row,
    failure_type: FailureType,
    report: Report,
    *,
    error: str,
    actor: Actor,
    now: datetime,
    request_id: str,
) -> None:
    """Insert the failure of an attempt and put it into its pattern."""
    failure = Failure.objects.create(
        attempt_id=row["attempt_id"],
        task_id=row["id"],
        at=now,
        type=failure_type,
        code=report.code,
        message=error[:MESSAGE_LENGTH],
        details=report.details,
        root_cause_guess=report.root_cause_guess,
        suggested_fix=report.suggested_fix,
        verification=report.verification,
        files_modified=list(report.files_modified),
        learnings=list(report.learnings),
    )
    grouping.join(
        failure,
        project_id=row["project_id"],
        agent_id=row["agent_id"],
        actor=actor,
        now=now,
        request_id=request_id,
    )
