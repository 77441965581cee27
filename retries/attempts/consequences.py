"""Consequences of an ended attempt: its failure, the agent's breaker, and dependents."""

from datetime import datetime

from ledger import needs
from ledger.database.sql import Row
from ledger.journal import Stamp
from ledger.models import Failure
from ledger.states import FailureType, TaskState
from ledger.tokens import TrustedCaller
from retries import breaker
from retries.attempts.report_fields import MESSAGE_LENGTH, Report
from retries.decisions import Decision
from retries.failures import grouping
from retries.failures.outputs.telling_lines import find_telling_lines
from retries.tasks import checkpoints


def follow(
    row: Row,
    decision: Decision,
    report: Report,
    *,
    error: str,
    caller: TrustedCaller,
    now: datetime,
) -> None:
    stamp = Stamp(caller.actor, now, caller.request_id)
    if decision.failure_type:
        record_failure(row, decision.failure_type, report, error=error, stamp=stamp)
    is_heard = decision.is_about_agent and decision.to != TaskState.ABORTED
    if is_heard and report.status != "blocked":
        breaker.record_outcome(
            row["agent_id"],
            ok=decision.to == TaskState.DONE,
            failure_type=decision.failure_type,
            attempt_id=row["attempt_id"],
            stamp=stamp,
        )
    if decision.to == TaskState.DONE:
        needs.meet([row["id"]], caller=caller, now=now)
        checkpoints.open_questions_after([row["id"]], stamp=stamp)


def record_failure(
    row: Row, failure_type: FailureType, report: Report, *, error: str, stamp: Stamp
) -> None:
    failure = Failure(
        attempt_id=row["attempt_id"],
        task_id=row["id"],
        at=stamp.at,
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
    failure.telling_lines = find_telling_lines(*failure.texts)
    failure.save(force_insert=True)
    grouping.join(
        failure,
        project_id=row["project_id"],
        agent_id=row["agent_id"],
        files_changed=len(report.files_modified) if report.sends_files else None,
        stamp=stamp,
    )
