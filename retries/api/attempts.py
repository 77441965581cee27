"""The agent's loop over HTTP: claim, beat, report; and tasks that are enqueued or stopped.

On the router of `ledger.api.tasks`: an address has one router, whoever offers its methods.
"""

from dataclasses import replace
from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.utils import timezone
from ninja import Body, Query, Schema

from ledger import sql
from ledger.api.auth import BearerRequest, PrincipalAuth, PrincipalRequest, TenfourToken, actor
from ledger.api.responses import answer, base_of, idempotent
from ledger.api.tasks import enqueued, router, tagged, visible, who_of
from ledger.errors import InvalidTransition, NotFound
from ledger.models import Agent, Attempt, Token
from ledger.schemas.tasks import TaskIn, TaskOut, task_out
from ledger.sql import Row
from ledger.states import FINAL, TaskState, Who
from ledger.tasks import fetch_task
from ledger.tasks.lineage import invalid_transition
from ledger.tokens import Caller, ScopeMissing, TrustedCaller
from retries import claim_statements, claims, task_actions
from retries.api.retry_context import TEXT, XML, of_claim, of_decision, said_as
from retries.attempts import exit_codes, finishing, heartbeats, releases, report_fields
from retries.attempts.finishing import Reply
from retries.attempts.report_fields import Report
from retries.claims import ClaimResult
from retries.models import Escalation
from retries.retry_context.history import load_histories, may_have_history
from retries.schemas import escalations
from retries.schemas.escalations import claim_out, claimed_out

# Of an output that is longer than what is kept the rest is thrown away, not refused.
MOST_OUTPUT_BYTES = 8 * 1024 * 1024


class EnqueueQuery(Schema):
    claim: bool = False


@router.post(
    "/tasks",
    auth=PrincipalAuth("tasks:create"),
    response={201: TaskOut | escalations.ClaimOut},
    openapi_extra={"x-idempotent": True},
)
def tasks_enqueue(
    request: PrincipalRequest, body: TaskIn, asked: Query[EnqueueQuery]
) -> HttpResponse:
    """Enqueue a task; with `?claim=true` an agent starts it in the same call."""
    who = request.auth
    if asked.claim and not who.is_agent:
        raise ScopeMissing("Only an agent's token can start what it enqueues.", scope="tasks:work")

    def work() -> tuple[int, Any]:
        row = enqueued(request, [body])[0]
        if not asked.claim:
            return 201, task_out(row, who=who_of(who))
        agent = Agent.objects.get(pk=row["agent_id"])
        caller = TrustedCaller(actor(who), agent=agent, request_id=request.id)
        found = claims.claim(caller, task=row["id"])
        waiting, brief = claims.count_pending(agent), agent.system_text
        claim = shown(replace(found, pending_instructions=waiting, system_text=brief))
        return 201, claim | {"made": row["id"]}

    # what can't be started at all, such as one that needs others, is not made
    return idempotent(request, sql.atomic(work) if asked.claim else work)


@router.post(
    "/claims",
    auth=TenfourToken("tasks:work"),
    response=escalations.ClaimOut,
    openapi_extra=said_as(TEXT, XML),
)
def claims_take(
    request: BearerRequest, body: Body[escalations.ClaimIn | None] = None
) -> HttpResponse:
    """Take the next tasks of the agent, each with an attempt under a lease.

    An empty answer says why, and when to ask again. With `Accept: text/plain` the prompt alone
    comes back, with the attempt's id in the header Tenfour-Attempt; nothing without a task.
    """
    asked = body or escalations.ClaimIn.model_validate({})
    found = claims.claim(
        request.auth,
        worker_id=asked.worker_id,
        task=asked.task,
        limit=asked.limit,
        resume=asked.resume,
        lease_s=asked.lease_s,
    )
    if asked.task and not found.rows:
        own(request, asked.task)
    return of_claim(request, shown(found))


def shown(found: ClaimResult) -> dict[str, Any]:
    told = [row["id"] for row in found.rows if may_have_history(row["type"], row["attempt_number"])]
    return claim_out(found, pasts=load_histories(told), now=timezone.now())


@router.post(
    "/tasks/{id}/start",
    auth=TenfourToken("tasks:work"),
    response=escalations.ClaimOut,
    openapi_extra=said_as(TEXT, XML),
)
def tasks_start(
    request: BearerRequest, id: UUID, body: Body[escalations.StartIn | None] = None
) -> HttpResponse:
    """Start one task of the agent, for callers that push.

    While the agent's breaker is open this is refused, and the task waits, blocked.
    """
    worker = body.worker_id if body else ""
    found = claims.claim(request.auth, task=id, worker_id=worker)
    if not found.rows:
        row = own(request, id)
        if row["state"] not in (TaskState.QUEUED, TaskState.RETRY, TaskState.BLOCKED):
            raise invalid_transition(row, TaskState.RUNNING, Who.AGENT)
        claims.require_attempt(found, row["agent_name"], id)
    return of_claim(request, shown(found))


def own(request: BearerRequest, id: UUID) -> Row:
    """A task of the agent that calls, whatever keeps the agent from it; raises NotFound."""
    row = fetch_task(id)
    if not Token.objects.filter(digest=request.auth.digest, agent=row["agent_id"]).exists():
        raise NotFound(f"There is no task {id}.")
    return row


@router.get("/tasks/{id}", auth=PrincipalAuth("tasks:read"), response=TaskOut)
def tasks_get(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Read one task; where a person is asked about it, it names the escalation."""
    row = visible(request, id)
    asked = Escalation.objects.open().filter(task=id).values_list("pk", flat=True).first()
    return tagged(row, request, escalation=asked)


@router.post("/tasks/{id}/abort", auth=PrincipalAuth("tasks:write"), response=TaskOut)
def tasks_abort(
    request: PrincipalRequest, id: UUID, body: Body[escalations.AbortIn | None] = None
) -> HttpResponse:
    """Stop a task; one that runs is told at its next heartbeat and ends when it reports."""
    who = who_of(request.auth)
    visible(request, id)
    spare = who == Who.PRODUCER
    stopped = task_actions.abort(
        [id],
        spare_asked=spare,
        reason=body.reason if body else "",
        actor=actor(request.auth),
        request_id=request.id,
    )
    if not stopped:
        row = visible(request, id)
        asks = row["state"] == TaskState.ESCALATED or row["blocked_reason"] == "reported"
        if spare and asks:
            raise InvalidTransition(
                "A person is asked about this task: a person ends it.",
                current=row["state"],
                allowed=[],
            )
        if row["state"] in FINAL:
            raise invalid_transition(row, TaskState.ABORTED, who)
    return answer(task_out(visible(request, id), who=who))


# ---- attempts


@router.post(
    "/attempts/{id}/heartbeat",
    auth=TenfourToken("tasks:work"),
    response=escalations.HeartbeatOut,
    tags=["attempts"],
)
def attempts_heartbeat(
    request: BearerRequest, id: UUID, body: Body[escalations.HeartbeatIn | None] = None
) -> HttpResponse:
    """Renew the lease; the answer says whether to stop."""
    beat = heartbeats.renew_lease(
        id,
        caller=request.auth,
        progress=body.progress if body else None,
        extend_s=body.extend_s if body else None,
    )
    return answer({name: beat[name] for name in escalations.HeartbeatOut.model_fields})


@router.post(
    "/attempts/{id}/result",
    auth=TenfourToken("tasks:work"),
    response=escalations.DecisionOut,
    tags=["attempts"],
    openapi_extra=said_as(TEXT, XML),
)
def attempts_report(request: BearerRequest, id: UUID, body: escalations.ResultIn) -> HttpResponse:
    """Report how the attempt ended, and get the decision.

    The same report again gets the same answer. With `Accept: text/plain` what the next attempt is
    told comes back, and nothing where there is none.
    """
    told = finishing.finish_attempt(id, report_of(body), caller=request.auth)
    return of_decision(request, decided(told, request, id, reclaim=body.reclaim))


@router.post(
    "/attempts/{id}/exit/{code}",
    auth=TenfourToken("tasks:work", body_bytes=MOST_OUTPUT_BYTES),
    response=escalations.DecisionOut,
    tags=["attempts"],
    openapi_extra=said_as(TEXT, XML),
)
def attempts_exit(
    request: BearerRequest, id: UUID, code: int, asked: Query[escalations.ExitQuery]
) -> HttpResponse:
    """Report an exit code with the program's output as plain text; 0 is success.

    64 KiB of the output are kept, a quarter from its start and the rest from its end. With
    `Accept: text/plain` what the next attempt is told comes back, and nothing where there is none.
    """
    told = exit_codes.finish_with_exit_code(id, code, request.read(), caller=request.auth)
    response = of_decision(request, decided(told, request, id, reclaim=asked.reclaim))
    response["Output-Limit"] = str(report_fields.OUTPUT_BYTES)
    return response


@router.post(
    "/attempts/{id}/release",
    auth=TenfourToken("tasks:work"),
    response=TaskOut,
    tags=["attempts"],
)
def attempts_release(
    request: BearerRequest, id: UUID, body: Body[escalations.ReleaseIn | None] = None
) -> HttpResponse:
    """Give the task back unfinished: it is queued again, and the attempt does not count."""
    said = body or escalations.ReleaseIn.model_validate({})
    row = releases.release(id, caller=request.auth, reason=said.reason, note=said.note)
    return answer(task_out(row, who=Who.AGENT))


def report_of(body: escalations.ResultIn) -> Report:
    failure = body.failure or escalations.FailureIn.model_validate({})
    verification = body.verification.model_dump() if body.verification else None
    return Report(
        status=body.status,
        summary=body.summary,
        result=body.result,
        exit_code=body.verification.exit_code if body.verification else None,
        verification=verification,
        type=failure.type,
        code=failure.code,
        message=failure.message,
        details=failure.details,
        root_cause_guess=failure.root_cause_guess,
        suggested_fix=failure.suggested_fix,
        non_retryable=failure.non_retryable,
        retry_after_s=failure.retry_after_s,
        files_modified=[each.model_dump() for each in body.files_modified],
        learnings=body.learnings,
    )


def decided(
    told: Reply, request: BearerRequest, attempt_id: UUID, *, reclaim: bool
) -> dict[str, Any]:
    """The decision, with links; with `reclaim` the next attempt is open where it is due at once."""
    said = dict(told.decision)
    opened = said.pop("opened", "")
    if escalation := said.get("escalation"):
        url = f"{base_of(request)}/escalations/{escalation['id']}/"
        said["escalation"] = escalation | {"url": url}
    if reclaim and said["decision"] == "wait" and not said["delay_s"]:
        again = told.replayed
        found = still_open(opened) if again else next_of(told, request.auth, after=attempt_id)
        said |= goes_on(found, said) if found else {}
    return said


def goes_on(found: ClaimResult, said: dict[str, Any]) -> dict[str, Any]:
    """What is said beside of a next attempt that is open."""
    row = found.rows[0]
    shown_next = claimed_out(row, load_histories([row["id"]])[row["id"]], system=found.system_text)
    return {
        "decision": "retry",
        "retry": {
            "attempt": row["attempt_id"],
            "number": row["attempt_number"],
            "attempt_limit": row["attempt_limit"],
            "lease_expires_at": row["attempt_lease_expires_at"],
        },
        "task": said["task"] | {"state": row["state"], "version": row["version"]},
        **{name: shown_next[name] for name in ("retry_context", "prompt", "next_action")},
    }


@sql.atomic
def next_of(told: Reply, caller: Caller, *, after: UUID) -> ClaimResult | None:
    """The task's next attempt, or None where it can't be had: the report stands all the same."""
    try:
        task_id = UUID(told.decision["task"]["id"])
        found = claims.claim(caller, task=task_id, worker_id=told.worker_id)
    except InvalidTransition:  # another worker was faster
        return None
    if not found.rows:
        return None
    finishing.store_next_attempt(after, next_attempt=found.rows[0]["attempt_id"])
    return found


def still_open(attempt_id: str) -> ClaimResult | None:
    """The attempt that a report opened when it came first, unless it is over."""
    rows = Attempt.objects.select_related("agent").filter(outcome=None)
    live = rows.filter(pk=attempt_id).first() if attempt_id else None
    if live is None:
        return None
    columns = {f"attempt_{name}": getattr(live, name) for name in claim_statements.OPENED}
    row = fetch_task(live.task_id) | columns | {"resumed": True}
    return ClaimResult([row], system_text=live.agent.system_text)
