"""An attempt's report: decide what comes next, and write it in one transaction."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from ledger.database import server_time, sql
from ledger.database.sql import Row
from ledger.errors import Refusal
from ledger.journal import Actor, Stamp
from ledger.states import EvidenceLevel, Outcome, RetryOn, TaskState
from ledger.tasks import steps
from ledger.tasks.spec import Backoff
from ledger.tokens import Caller, TrustedCaller
from ledger.tracing.spans import start_span
from ledger.values.text import describe_exit
from ledger.values.timestamps import format_timestamp
from retries.attempts import fast_path
from retries.attempts.checks.reported import find_proof
from retries.attempts.consequences import follow
from retries.attempts.evidence import evidence_fields, gather_evidence
from retries.attempts.late_reports import record_late
from retries.attempts.live_attempt import END, TRIES, LeaseLost, lease_lost, read_attempt
from retries.attempts.report_fields import MESSAGE_LENGTH, Report, clean_report, digest_of
from retries.claiming.agent_waits import store_wait
from retries.claiming.attempt_traces import trace_report
from retries.decisions import Case, Decision, Evidence, Policy, decide
from retries.tasks.outside_files import FIELD, find_outside, list_paths, record_outside

EVENT_ERROR_LENGTH = 500
# the states that the API calls something else in a decision
DECISION_NAMES = {TaskState.RETRY: "wait"}


class AlreadyReported(Refusal):
    """This attempt was reported before with different content"""

    code = "attempt_already_reported"
    hint = "A report is final. Sending the same report again returns the same answer."


class VerificationMissing(Refusal):
    """This task must be verified"""

    code = "verification_missing"
    hint = "Run the task's verify command and send 'verification' with its exit_code."


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a report; `replayed` where the same report was answered before."""

    decision: dict[str, Any]
    replayed: bool = False
    worker_id: str = ""


def finish_attempt(
    attempt_id: UUID, report: Report, *, caller: Caller, now: datetime | None = None
) -> Reply:
    """End an attempt with its agent's report, and decide what comes next.

    A repeated report gets the same answer. Raises AlreadyReported for a different report, and
    LeaseLost if the attempt ended in another way; the journal then has the report.
    """
    now = now or server_time.now()
    with start_span("tenfour.report") as span:
        reply = None
        if report.status == "success":
            digest = digest_of(report)
            reply = finish_done(attempt_id, report, digest=digest, caller=caller, now=now)
        if reply is None:
            reply = finish_cleaned(attempt_id, clean_report(report), caller=caller, now=now)
        trace_report(span, attempt_id, reply.decision)
    return reply


def finish_done(
    attempt_id: UUID, report: Report, *, digest: bytes, caller: Caller, now: datetime
) -> Reply | None:
    """End a successful attempt in few statements; None if its success has consequences."""
    moved = fast_path.finish_done(
        attempt_id,
        result=report.result,
        exit_code=report.exit_code,
        usage=report.usage,
        checks=report.checks,
        tree=report.tree,
        paths=list_paths(report),
        digest=digest,
        caller=caller,
        now=now,
    )
    if moved is None:
        return None
    decision = fast_path.decision_of(report.exit_code)
    return Reply(with_task(decision, moved["id"], TaskState.DONE, moved["version"]))


def finish_cleaned(attempt_id: UUID, report: Report, *, caller: Caller, now: datetime) -> Reply:
    for _ in range(TRIES):
        row = read_attempt(attempt_id, caller=caller, now=now)
        if row["outcome"] is not None:
            if row["report_digest"] is None:
                record_late(row, report, caller=caller, now=now)
            return repeat_reply(row, report)
        if reply := settle(row, report, caller=caller, now=now):
            return reply
    raise LeaseLost("The task kept changing while the attempt was reported.")


def repeat_reply(row: Row, report: Report) -> Reply:
    # The attempt is over, and this report gets its first answer again.
    if row["report_digest"] is None:
        raise lease_lost(row)
    if bytes(row["report_digest"]) != report.digest:
        raise AlreadyReported(
            f"Attempt {row['number']} was reported before with different content."
        )
    decision = with_task(row["decision"], row["id"], row["state"], row["version"])
    return Reply(decision, replayed=True)


def with_task(decision: dict[str, Any], task_id: UUID, state: str, version: int) -> dict[str, Any]:
    return decision | {"task": {"id": str(task_id), "state": str(state), "version": version}}


# ---- read, decide, write


@sql.atomic
def settle(row: Row, report: Report, *, caller: Caller, now: datetime) -> Reply | None:
    """Decide and write everything that follows; None if the task has changed since `row`."""
    decision = decide(case_of(row, report, now=now))
    if decision.agent_waits:
        decision = store_wait(row["agent_id"], decision, caller=caller, now=now)
        if row["pool_id"] and row["retry_on"] != RetryOn.SAME:
            # The agent waits, and another member of the pool may have room.
            decision = replace(decision, delay_s=0.0)
    error = error_of(report, decision)
    fields = decision_fields(decision, now=now)
    if outside := find_outside(row, report):
        fields[FIELD] = outside
    moved = end_attempt(
        row,
        decision,
        report,
        outcome=outcome_of(decision),
        error=error,
        fields=fields,
        caller=caller,
        now=now,
    )
    if moved is None:
        return None
    if moved["escalation_id"]:
        fields["escalation"] = {"id": str(moved["escalation_id"])}
    # the caller by name, as the statements above have looked it up
    actor = Actor(row["actor_type"], row["actor_id"], row["actor_name"])
    request_id = caller.params["request_id"]
    known = TrustedCaller(actor, request_id=request_id)
    if outside:
        record_outside(row, outside, caller=known, now=now)
    follow(row, decision, report, error=error or "", caller=known, now=now)
    counted = row | {"usage_before": moved["usage_before"]}
    if report.usage and steps.take_more(counted, report.usage, Stamp(actor, now, request_id)):
        moved |= read_current(row["id"])
    return Reply(
        with_task(fields, row["id"], moved["state"], moved["version"]), worker_id=row["worker_id"]
    )


def read_current(task_id: UUID) -> Row:
    return sql.run("select state, version from ledger_task where id = %(id)s", id=task_id)[0]


def case_of(row: Row, report: Report, *, now: datetime) -> Case:
    """Return what the decision depends on; raises VerificationMissing."""
    verify = verify_of(row)
    if report.status == "success" and report.exit_code is None and verify.get("required"):
        raise VerificationMissing("The task requires a verification and none was sent.")
    expected = verify.get("expect_exit", 0)
    # A success is decided without a look at texts or policies.
    evidence, policy = Evidence(), Policy()
    if report.status == "failure" or report.exit_code not in (None, expected):
        evidence, policy = gather_evidence(row, report, now=now)
    return Case(
        status=report.status,
        type=report.type,
        code=report.code,
        exit_code=report.exit_code,
        expect_exit=expected,
        proof=find_proof(verify, report.checks, report.tree),
        requires_proof=row["evidence_level"] == EvidenceLevel.REQUIRE,
        non_retryable=report.non_retryable or row["non_retryable"],
        abort_asked=row["abort_requested_at"] is not None,
        stop_asked=row["is_spent"],
        in_plan=row["plan_id"] is not None,
        idempotent=row["idempotent"],
        number=row["number"],
        attempt_limit=row["attempt_limit"],
        on_exhausted=row["on_exhausted"],
        retry_count=row["retry_count"],
        retry_after_s=report.retry_after_s,
        backoff=Backoff(
            row["base_delay_ms"], row["max_delay_ms"], row["exponential_base"], row["jitter"]
        ),
        evidence=evidence,
        policy=policy,
    )


def verify_of(row: Row) -> dict[str, Any]:
    payload = row["payload"]
    found: dict[str, Any] = payload.get("verify", {}) if isinstance(payload, dict) else {}
    return found


def error_of(report: Report, decision: Decision) -> str | None:
    """Return the error that the task and its failure show; None after a success."""
    if not decision.failure_type and report.status == "success":
        return None
    return report.message or report.summary or describe_end(report, decision)


def describe_end(report: Report, decision: Decision) -> str:
    ran = report.verification or {}
    lines = (line for line in (ran.get("output") or "").splitlines() if line.strip())
    if output := "\n".join(lines)[:MESSAGE_LENGTH]:
        return output
    if ran.get("command") and decision.failure_type:
        return describe_exit(ran["command"], ran["exit_code"])
    if ran and decision.failure_type:
        return f"The verification returned exit code {ran['exit_code']}"
    if report.status == "released":
        return f"The agent released the task: {decision.reason.replace('_', ' ')}."
    return f"The attempt was reported as {report.status} without a message."


def decision_fields(decision: Decision, *, now: datetime) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "decision": DECISION_NAMES.get(decision.to, decision.to.value),
        "reason": decision.reason,
    }
    if decision.evidence:
        fields["evidence"] = evidence_fields(decision.evidence)
    if decision.failure_type:
        fields["verdict"] = {"status": "failure", "type": str(decision.failure_type)}
    if decision.to == TaskState.RETRY:
        fields["not_before"] = format_timestamp(now + timedelta(seconds=decision.delay_s))
        fields["delay_s"] = decision.delay_s
    return fields


def outcome_of(decision: Decision) -> Outcome:
    if decision.agent_waits or decision.is_stopped:
        return Outcome.RELEASED
    match decision.to:
        case TaskState.DONE:
            return Outcome.SUCCESS
        case TaskState.ABORTED:
            return Outcome.ABORTED
        case TaskState.BLOCKED:
            return Outcome.BLOCKED
    return Outcome.FAILURE if decision.failure_type else Outcome.ESCALATED


def end_attempt(
    row: Row,
    decision: Decision,
    report: Report,
    *,
    outcome: Outcome,
    error: str | None,
    fields: dict[str, Any] | None,
    caller: Caller,
    now: datetime,
) -> Row | None:
    """Move the task and close its attempt; None if the task has changed since `row`.

    `fields` is the decision to store, for a report that the agent may repeat.
    """
    rows = sql.run(
        END[type(caller), decision.to],
        id=row["id"],
        version=row["version"],
        attempt=row["attempt_id"],
        result=Jsonb(report.result),
        retry_count=row["retry_count"] + decision.counts,
        granted=int(decision.agent_waits or decision.is_stopped),
        error=error,
        reason=decision.reason,
        due_at=now + timedelta(seconds=decision.delay_s),
        data=Jsonb(event_data(row, decision, code=report.code, error=error)),
        outcome=outcome,
        report_digest=report.digest,
        decision=Jsonb(fields) if fields is not None else None,
        usage=Jsonb(report.usage) if report.usage else None,
        checks=Jsonb(report.checks) if report.checks else None,
        tree=Jsonb(report.tree) if report.tree else None,
        proof=decision.proof,
        now=now,
        **caller.params,
    )
    return rows[0] if rows else None


def event_data(row: Row, decision: Decision, *, code: str, error: str | None) -> dict[str, Any]:
    data: dict[str, Any] = {"attempt": row["number"], "reason": decision.reason}
    if decision.proof:
        data["proof"] = str(decision.proof)
    if decision.failure_type:
        data["failure_type"] = str(decision.failure_type)
    if code:
        data["code"] = code
    if decision.to == TaskState.RETRY:
        data["delay_s"] = decision.delay_s
    if decision.evidence:
        data["evidence"] = evidence_fields(decision.evidence)
    if error:
        data["error"] = error[:EVENT_ERROR_LENGTH]
    return data


def store_next_attempt(attempt_id: UUID, *, next_attempt: UUID) -> None:
    # The answer to a repeated report names the attempt that was opened at once.
    sql.run(
        "update ledger_attempt set decision = decision || %(more)s where id = %(id)s",
        more=Jsonb({"opened": str(next_attempt)}),
        id=attempt_id,
    )
