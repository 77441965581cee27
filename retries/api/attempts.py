"""Attempts over HTTP: heartbeats, reports with the decisions that follow, and releases."""

from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpResponse
from ninja import Body, Query, Router

from ledger.accounts import note_windows
from ledger.api.auth import BearerAuth, BearerRequest
from ledger.api.responses import json_response
from ledger.database import server_time, sql
from ledger.errors import InvalidTransition
from ledger.models import Attempt
from ledger.schemas.tasks import TaskOut
from ledger.sessions.limit_records import note_records
from ledger.states import Who
from ledger.tokens import Caller
from ledger.values.account_windows import LimitSource, WindowFact
from retries import claims
from retries.api.inputs.task_bodies import read_task, task_response
from retries.api.text_responses import TEXT, XML, decision_response, text_content
from retries.attempts import exit_codes, finishing, heartbeats, releases, report_fields
from retries.attempts.checks.reported import Check, make_check
from retries.attempts.endings import SeenBy
from retries.attempts.finishing import Reply
from retries.attempts.report_fields import Report
from retries.claiming import statements as claim_statements
from retries.claims import ClaimResult
from retries.retry_context.history import load_histories
from retries.retry_context.storing import store_contexts
from retries.schemas.attempts import (
    CheckIn,
    DecisionOut,
    ExitQuery,
    FailureIn,
    HeartbeatIn,
    HeartbeatOut,
    ReleaseIn,
    ResultIn,
    UsageFields,
    VerificationIn,
)
from retries.schemas.claims import claimed_out

router = Router(tags=["attempts"])

# Output beyond what is stored is dropped, not refused; this limit only bounds the work.
MOST_RESULT_BYTES = 4 * 1024 * 1024
MOST_HEARTBEAT_BYTES = 1024 * 1024
MOST_OUTPUT_BYTES = 8 * 1024 * 1024
# beside the JSON that ninja describes
RESULT_BODY: dict[str, Any] = {
    "content": {
        "application/yaml": {
            "schema": {"type": "string"},
            "example": "status: failure\nverification:\n  command: npm test\n  exit_code: 1\n"
            "  output_summary: 1 passed, 2 failed\nerror: Cannot find module 'uuid'\n",
        }
    }
}
# Read as raw bytes, so ninja can't describe it.
OUTPUT_BODY: dict[str, Any] = {
    "required": False,
    "description": "the program's output as raw bytes in UTF-8; it may be empty",
    "content": {
        TEXT: {"schema": {"type": "string"}, "example": "FAIL tests/PlannerId\n1 failed\n"},
        "application/octet-stream": {
            "schema": {"type": "string", "format": "binary"},
            "example": "FAIL tests/PlannerId\n1 failed\n",
        },
    },
}


@router.post(
    "/attempts/{id}/heartbeat",
    auth=BearerAuth("tasks:work", body_bytes=MOST_HEARTBEAT_BYTES),
    response=HeartbeatOut,
)
def attempts_heartbeat(
    request: BearerRequest, id: UUID, body: Body[HeartbeatIn | None] = None
) -> HttpResponse:
    """Renew an attempt's lease; the response says whether to stop."""
    fields, now = body.model_dump() if body else {}, server_time.now()
    limits = [WindowFact(**limit, seen_at=now) for limit in fields.pop("limits", [])]
    records = fields.pop("limit_records", [])
    row = heartbeats.renew_lease(id, caller=request.auth, now=now, **fields)
    note_windows(row["agent_id"], limits, source=LimitSource.CLIENT, caller=request.auth, now=now)
    note_records(row["agent_id"], records, caller=request.auth, now=now)
    return json_response({name: row[name] for name in HeartbeatOut.model_fields})


@router.post(
    "/attempts/{id}/result",
    auth=BearerAuth("tasks:work", body_bytes=MOST_RESULT_BYTES),
    response=DecisionOut,
    openapi_extra=text_content(TEXT, XML) | {"requestBody": RESULT_BODY},
)
def attempts_report_result(request: BearerRequest, id: UUID, body: ResultIn) -> HttpResponse:
    """Report an attempt's result and get the decision.

    The body is JSON or YAML. It may also have the keys that an executor of a plan writes: `error`,
    `failure_type`, `root_cause_guess`, `suggested_fix`, `files_state`, `files_modified` as paths,
    and `output_summary` in `verification`.

    Repeating a report returns the same response. With `Accept: text/plain`, the response is what
    the next attempt is told; it is empty if none follows.
    """
    reply = finishing.finish_attempt(id, report_of(body), caller=request.auth)
    return decision_response(request, decision_body(reply, request, id, reclaim=body.reclaim))


@router.post(
    "/attempts/{id}/exit/{code}",
    auth=BearerAuth("tasks:work", body_bytes=MOST_OUTPUT_BYTES),
    response=DecisionOut,
    openapi_extra=text_content(TEXT, XML) | {"requestBody": OUTPUT_BODY},
)
def attempts_report_exit(
    request: BearerRequest, id: UUID, code: int, query: Query[ExitQuery]
) -> HttpResponse:
    """Report a program's exit code, with its output as plain text.

    With `?of=verification` it is the exit code of the task's verify command. Otherwise it is the
    agent's own command: 0 is a success without a verification, which is refused with
    `verification_missing` where the task requires one.

    The server stores 64 KiB of the output: the lines that tell the cause with what is around them,
    its start and its end.
    With `Accept: text/plain`, the response is what the next attempt is told; it is empty if none
    follows.
    """
    output = request.read()
    usage = {name: getattr(query, name) for name in UsageFields.model_fields}
    reply = exit_codes.finish_with_exit_code(
        id, code, output, of=query.of, usage=usage, caller=request.auth
    )
    decision = decision_body(reply, request, id, reclaim=query.reclaim)
    response = decision_response(request, decision)
    response["Output-Limit"] = str(report_fields.OUTPUT_BYTES)
    return response


@router.post("/attempts/{id}/release", auth=BearerAuth("tasks:work"), response=TaskOut)
def attempts_release(
    request: BearerRequest, id: UUID, body: Body[ReleaseIn | None] = None
) -> HttpResponse:
    """Release an unfinished task: it is queued again, and the attempt does not count."""
    release = body or ReleaseIn.model_validate({})
    row = releases.release(id, caller=request.auth, reason=release.reason, note=release.note)
    return task_response(read_task(row["id"]), who=Who.AGENT)


def report_of(body: ResultIn) -> Report:
    failure = body.failure or FailureIn.model_validate({})
    ran, now = body.verification, server_time.now()
    checks = [store_check(each, now=now) for each in body.checks]
    if ran and all(check["command"] not in ("", ran.command) for check in checks):
        ended: dict[str, Any] = {"exit_code": ran.exit_code, "duration_s": ran.duration_s}
        checks.append(make_check(ran.command, **ended, seen_by=SeenBy.CLIENT, at=now))
    return Report(
        status=body.status,
        summary=body.summary,
        result=body.result,
        exit_code=body.verification.exit_code if body.verification else None,
        verification=dump_verification(body.verification) if body.verification else None,
        type=failure.type,
        code=failure.code,
        message=failure.message,
        details=failure.details,
        root_cause_guess=failure.root_cause_guess,
        suggested_fix=failure.suggested_fix,
        non_retryable=failure.non_retryable,
        retry_after_s=failure.retry_after_s,
        files_modified=[file.model_dump() for file in body.files_modified],
        sends_files="files_modified" in body.model_fields_set,
        learnings=body.learnings,
        usage=body.usage.model_dump() if body.usage else None,
        checks=checks,
        tree=body.tree.model_dump() if body.tree else None,
    )


def store_check(check: CheckIn, *, now: datetime) -> Check:
    given = check.model_dump(exclude={"at"})
    return make_check(given.pop("command"), **given, at=check.at or now)


def dump_verification(ran: VerificationIn) -> dict[str, Any]:
    # Without suspects, leave the key out, as in the reports of older clients.
    return ran.model_dump(exclude=None if ran.suspects else {"suspects"})


def decision_body(
    reply: Reply, request: BearerRequest, attempt_id: UUID, *, reclaim: bool
) -> dict[str, Any]:
    """Return the JSON object for a decision; `reclaim` opens the next attempt if it is due."""
    decision = dict(reply.decision)
    opened = decision.pop("opened", "")
    if escalation := decision.get("escalation"):
        url = f"{settings.LINK_URL}/escalations/{escalation['id']}/"
        decision["escalation"] = escalation | {"url": url}
    if reclaim and decision["decision"] == "wait" and not decision["delay_s"]:
        if reply.replayed:
            claimed = find_opened_attempt(opened)
        else:
            claimed = claim_next_attempt(reply, request.auth, after=attempt_id)
        if claimed:
            decision |= retry_fields(claimed, decision)
    return decision


def retry_fields(claimed: ClaimResult, decision: dict[str, Any]) -> dict[str, Any]:
    row = claimed.rows[0]
    history = load_histories([row["id"]], typed=True)[row["id"]]
    body = claimed_out(row, history, system=claimed.system_text)
    store_contexts([(row, history, body["retry_context"])])
    return {
        "decision": "retry",
        "retry": {
            "attempt": row["attempt_id"],
            "number": row["attempt_number"],
            "attempt_limit": row["attempt_limit"],
            "lease_expires_at": row["attempt_lease_expires_at"],
        },
        "task": decision["task"] | {"state": row["state"], "version": row["version"]},
        **{name: body[name] for name in ("retry_context", "prompt", "next_action")},
    }


@sql.atomic
def claim_next_attempt(
    reply: Reply, caller: Caller, *, after: UUID, lease_s: int | None = None
) -> ClaimResult | None:
    """Claim the task again after a report; return None if that is not possible."""
    try:
        task_id = UUID(reply.decision["task"]["id"])
        claimed = claims.claim(caller, task=task_id, worker_id=reply.worker_id, lease_s=lease_s)
    except InvalidTransition:  # another worker was faster; the report is still valid
        return None
    if not claimed.rows:
        return None
    finishing.store_next_attempt(after, next_attempt=claimed.rows[0]["attempt_id"])
    return claimed


def find_opened_attempt(attempt_id: str) -> ClaimResult | None:
    # Repeated reports get the attempt that the first report opened, unless it is over.
    rows = Attempt.objects.select_related("agent").filter(outcome=None)
    attempt = rows.filter(pk=attempt_id).first() if attempt_id else None
    if attempt is None:
        return None
    columns = {f"attempt_{name}": getattr(attempt, name) for name in claim_statements.OPENED}
    row = read_task(attempt.task_id) | columns | {"resumed": True}
    return ClaimResult([row], system_text=attempt.agent.system_text)
