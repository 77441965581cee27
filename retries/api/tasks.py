"""Tasks over HTTP: enqueue one, start, list, get, update, abort, unblock, and assign.

It adds to the router of `ledger.api.tasks`, because an address belongs to one router.
"""

from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Any
from uuid import UUID

from django.http import HttpResponse
from ninja import Body, Query, Schema
from pydantic import Field

from ledger import agents
from ledger.access.reasons import require_reason
from ledger.api.auth import (
    BearerAuth,
    BearerRequest,
    PrincipalAuth,
    PrincipalRequest,
    actor,
    stamp_of,
)
from ledger.api.cursors import read_page
from ledger.api.parameters import (
    filter_by_id,
    find_agent_id,
    find_plan_id,
    parse_if_match,
    parse_states,
)
from ledger.api.responses import json_response, page_body, respond_once
from ledger.api.tasks import as_rows, enqueue, find_task, role_of, router
from ledger.authorization.permissions import may
from ledger.database import sql
from ledger.errors import InvalidTransition
from ledger.models import Agent, Project, Task
from ledger.models.task import has_proof
from ledger.schemas.shared import page_of
from ledger.schemas.tasks import TaskIn, TaskOut, TaskPatch, TaskQuery, task_out
from ledger.states import FINAL, BlockedReason, Proof, TaskState, Who
from ledger.tasks import Change
from ledger.tasks.lineage import invalid_transition
from ledger.tasks.spec import backoff_of
from ledger.tokens import ScopeMissing, TrustedCaller
from retries import claims
from retries.api.claims import claim_body, fetch_own_task
from retries.api.escalations import PersonAuth
from retries.api.inputs.task_bodies import read_task, task_bodies, task_response
from retries.api.text_responses import TEXT, XML, claim_response, text_content
from retries.assignment.rows import TASK, assign, comment
from retries.budgets.editing import read_spec
from retries.journal_readers import stored_values
from retries.schemas.claims import ClaimOut, StartIn
from retries.schemas.escalations import AssignIn, CommentIn
from retries.schemas.operator_actions import AbortIn, RetryIn
from retries.tasks import actions as task_actions
from retries.verbs.tasks import EDITED, retry_one

STARTABLE = (TaskState.QUEUED, TaskState.RETRY, TaskState.BLOCKED)


class EnqueueQuery(Schema):
    claim: bool = Field(False, description="start the task in the same call; for agents only")


@router.post(
    "/tasks",
    auth=PrincipalAuth("tasks:create"),
    response={201: TaskOut | ClaimOut},
    openapi_extra={"x-idempotent": True},
)
def tasks_create(
    request: PrincipalRequest, body: TaskIn, query: Query[EnqueueQuery]
) -> HttpResponse:
    """Enqueue a task; with `?claim=true`, an agent starts it in the same call."""
    if not query.claim:
        return respond_once(request, lambda: (201, enqueue_only(request, body)))
    if not request.auth.is_agent:
        raise ScopeMissing("Only an agent's token can start what it enqueues.", scope="tasks:work")
    # A task that can't be started at all, such as one with needs, must not be created.
    work = sql.atomic(enqueue_and_claim)
    return respond_once(request, lambda: (201, work(request, body)))


def enqueue_only(request: PrincipalRequest, body: TaskIn) -> dict[str, Any]:
    row = enqueue(request, [body])[0]
    return task_out(row, who=role_of(request.auth))


def enqueue_and_claim(request: PrincipalRequest, body: TaskIn) -> dict[str, Any]:
    row = enqueue(request, [body])[0]
    agent = Agent.objects.get(pk=row["agent_id"])
    caller = TrustedCaller(actor(request.auth), agent=agent, request_id=request.id)
    claimed = claims.claim(caller, task=row["id"])
    claimed = replace(
        claimed,
        # A trusted caller's claim returns what working on a task needs, not all of it.
        rows=[read_task(found["id"]) | found for found in claimed.rows],
        pending_instructions=claims.count_pending(agent),
        system_text=agent.system_text,
    )
    return claim_body(claimed) | {"made": row["id"]}


@router.post(
    "/tasks/{id}/start",
    auth=BearerAuth("tasks:work"),
    response=ClaimOut,
    openapi_extra=text_content(TEXT, XML),
)
def tasks_start(
    request: BearerRequest, id: UUID, body: Body[StartIn | None] = None
) -> HttpResponse:
    """Start one of the agent's tasks, for callers that push work to agents.

    If the agent's breaker is open, the call is refused and the task becomes blocked.
    """
    worker_id = body.worker_id if body else ""
    claimed = claims.claim(request.auth, task=id, worker_id=worker_id)
    if not claimed.rows:
        row = fetch_own_task(request, id)
        if row["state"] not in STARTABLE:
            raise invalid_transition(row, TaskState.RUNNING, Who.AGENT)
        claims.require_attempt(claimed, row["agent_name"], id)
    return claim_response(request, claim_body(claimed))


@router.get("/tasks", auth=PrincipalAuth("tasks:read"), response=page_of(TaskOut))
def tasks_list(request: PrincipalRequest, query: Query[TaskQuery]) -> HttpResponse:
    """List tasks, newest first."""
    rows = Task.objects.visible_to(request.auth)
    if query.state:
        rows = rows.filter(state__in=parse_states(query.state, TaskState))
    if query.agent:
        rows = rows.filter(agent=find_agent_id(request.auth, query.agent))
    if query.pool:
        rows = rows.filter(pool=find_agent_id(request.auth, query.pool))
    if query.type:
        rows = rows.filter(type=query.type)
    if query.assignee:
        rows = rows.filter(assignee__username=query.assignee, assignee__isnull=False)
    if query.q:
        rows = rows.filter(title__icontains=query.q)
    if query.value:
        project = Project.objects.get(pk=request.auth.project_id)
        key, value = stored_values.read_term(query.value, project)
        rows = rows.filter(stored_values.match_newest(key, project, value))
    if query.plan:
        rows = rows.filter(plan=find_plan_id(request.auth, query.plan))
    if query.ref:
        rows = rows.filter(ref=query.ref).current()
    if query.proof:
        wanted = parse_states(query.proof, Proof, what="proof")
        rows = rows.filter(reduce(or_, map(has_proof, wanted)))
    if query.updated_after:
        rows = rows.filter(updated_at__gt=query.updated_after)
    filters = query.model_dump(exclude={"limit", "cursor"})
    rows = filter_by_id(rows, query.id)
    page = read_page(as_rows(rows), limit=query.limit, cursor=query.cursor, filters=filters)
    return json_response(page_body(page, task_bodies(page.rows, who=role_of(request.auth))))


@router.get("/tasks/{id}", auth=PrincipalAuth("tasks:read"), response=TaskOut)
def tasks_get(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Get a task."""
    return task_response(find_task(request, id), who=role_of(request.auth))


@router.patch("/tasks/{id}", auth=PrincipalAuth("tasks:write"), response=TaskOut)
def tasks_update(request: PrincipalRequest, id: UUID, body: TaskPatch) -> HttpResponse:
    """Update a task that is not over.

    The `If-Match` header must contain the ETag of the version you read.
    """
    find_task(request, id)
    project = Project.objects.get(pk=request.auth.project_id)
    task_actions.change(
        id,
        Change(
            priority=body.priority,
            agent=None if body.agent is None else agents.get_by_name(body.agent, project=project),
            payload=body.payload,
            max_attempts=body.max_attempts,
            backoff=backoff_of(body.backoff) if body.backoff else None,
            evidence=body.evidence,
            retry_on=body.retry_on,
            not_before=body.not_before,
        ),
        version=parse_if_match(request),
        stamp=stamp_of(request),
    )
    return task_response(find_task(request, id), who=role_of(request.auth))


@router.post("/tasks/{id}/abort", auth=PrincipalAuth("tasks:write"), response=TaskOut)
def tasks_abort(
    request: PrincipalRequest, id: UUID, body: Body[AbortIn | None] = None
) -> HttpResponse:
    """Abort a task.

    A running task's agent learns of it at the next heartbeat, and the task ends with its report.
    """
    who = role_of(request.auth)
    find_task(request, id)
    require_reason("task.abort", [request.auth.project_id], body.reason if body else "")
    aborted = task_actions.abort(
        [id],
        spare_asked=who == Who.PRODUCER,
        reason=body.reason if body else "",
        stamp=stamp_of(request),
    )
    row = find_task(request, id)
    if not aborted:
        reported = row["blocked_reason"] == BlockedReason.REPORTED
        if who == Who.PRODUCER and (row["state"] == TaskState.ESCALATED or reported):
            raise InvalidTransition(
                "A person is asked about this task. Only a person can end it.",
                current=row["state"],
                allowed=[],
            )
        if row["state"] in FINAL:
            raise invalid_transition(row, TaskState.ABORTED, who)
    return task_response(row, who=who)


@router.post("/tasks/{id}/unblock", auth=PersonAuth("escalations:resolve"), response=TaskOut)
def tasks_unblock(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Unblock a task that stays blocked because a task it needs was skipped.

    It waits for its other needs, if there are any; otherwise it is queued, or a checkpoint asks.
    """
    who = role_of(request.auth)
    find_task(request, id)
    unblocked = task_actions.unblock([id], stamp=stamp_of(request))
    row = find_task(request, id)
    if not unblocked:
        raise invalid_transition(row, TaskState.QUEUED, who)
    return task_response(row, who=who)


@router.post("/tasks/{id}/assign", auth=PersonAuth("escalations:resolve"), response=TaskOut)
def tasks_assign(request: PrincipalRequest, id: UUID, body: AssignIn) -> HttpResponse:
    """Assign a task to a user, or to no one."""
    find_task(request, id)
    assign(TASK, [id], body.user, stamp=stamp_of(request))
    return task_response(find_task(request, id), who=role_of(request.auth))


@router.post(
    "/tasks/{id}/comment",
    auth=PersonAuth("escalations:resolve"),
    response=TaskOut,
    openapi_extra={"x-idempotent": True},
)
def tasks_comment(request: PrincipalRequest, id: UUID, body: CommentIn) -> HttpResponse:
    """Add a comment to a task's events; a person whom it mentions, as `@name`, is notified."""
    row = find_task(request, id)

    def add() -> tuple[int, Any]:
        comment(TASK, id, body.text, stamp=stamp_of(request))
        return 200, task_bodies([row], who=role_of(request.auth))[0]

    return respond_once(request, add)


@router.post("/tasks/{id}/retry", auth=PersonAuth("escalations:resolve"), response=TaskOut)
def tasks_retry(
    request: PrincipalRequest, id: UUID, body: Body[RetryIn | None] = None
) -> HttpResponse:
    """Retry a task that waits for its retry, failed, or asks whether to retry.

    The other fields change it for the next attempts. A failed task is replayed: the response is
    the new task that takes its place.
    """
    row, body = find_task(request, id), body or RetryIn.model_validate({})
    given = {name: getattr(body, name) for name in RetryIn.model_fields}
    needed = {"tasks:write"} if any(given[name] is not None for name in EDITED) else set()
    needed |= {"deadletters:write"} if row["state"] == TaskState.FAILED else set()
    if missing := sorted(scope for scope in needed if not may(request.auth, scope)):
        raise ScopeMissing(f"This call also needs the scope {' and '.join(missing)}.")
    project = Project.objects.get(pk=request.auth.project_id) if body.agent is not None else None
    options = given | {
        "agent": agents.get_by_name(body.agent or "", project=project) if project else None,
        "budget": read_spec(body.budget, pointer="/budget") if body.budget else None,
        "version": row["version"],
        "channel": "api",
    }
    shown = retry_one(id, options, stamp_of(request))
    return task_response(find_task(request, shown), who=role_of(request.auth))
