"""Permission requests and rules over HTTP: agents ask, people decide."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.http import HttpResponse
from ninja import Body, Query, Router

from ledger.access.reasons import require_reason
from ledger.api.auth import PrincipalAuth, PrincipalRequest, not_visible, stamp_of
from ledger.api.parameters import find_agent_id, parse_states
from ledger.api.reading import find_visible, list_response
from ledger.api.responses import complete_url, json_response, respond_once
from ledger.database import server_time
from ledger.models import Agent, Task
from ledger.schemas.shared import ReasonIn, page_of
from ledger.tokens import ScopeMissing
from retries.api.escalations import PersonAuth
from retries.models import PermissionRequest, PermissionRequestQuerySet, PermissionRule
from retries.permissions import requests, rules
from retries.permissions.calls import ToolCall
from retries.schemas import permissions as schemas
from retries.schemas.permissions import PermissionRuleOut, permission_out, trial_out
from retries.states import PermissionState, WhenSilent

router = Router(tags=["permissions"])

ASK = "tasks:work"


@router.post(
    "/permissions",
    auth=PrincipalAuth(ASK),
    response={201: schemas.PermissionOut},
    openapi_extra={"x-idempotent": True},
)
def permissions_create(request: PrincipalRequest, body: schemas.PermissionIn) -> HttpResponse:
    """Ask for leave to make a tool call.

    A rule may decide at once; else the request waits for a person. Ask for the decision with
    `POST /v1/permissions/{id}/take` until `expires_at`. Without a decision the call is neither
    allowed nor denied: let the agent's own program decide.
    """

    def ask() -> tuple[int, Any]:
        agent_id = require_agent(request)
        if body.task and not Task.objects.filter(pk=body.task, agent=agent_id).exists():
            raise not_visible("task", body.task)
        asked = requests.Asked(
            agent_id=agent_id,
            project_id=request.auth.project_id,
            call=ToolCall(body.tool, body.input, body.folder),
            wait=timedelta(seconds=body.wait_s),
            when_silent=WhenSilent(body.when_silent),
            session=body.session,
            call_id=body.call_id,
            said=body.said,
            asked_by=body.asked_by,
            task_id=body.task,
        )
        return 201, body_of(request, requests.ask(asked, stamp=stamp_of(request)))

    return respond_once(request, ask)


def require_agent(request: PrincipalRequest) -> UUID:
    """Return the token's agent; raise ScopeMissing if it has none."""
    if request.auth.agent_id is None:
        raise ScopeMissing("Only an agent asks for permission: send an agent's token.")
    return request.auth.agent_id


def body_of(request: PrincipalRequest, found: PermissionRequest) -> dict[str, Any]:
    body = permission_out(found, revealed=request.auth.is_agent)
    return complete_url(body) if body["url"] else body


@router.get(
    "/permissions", auth=PrincipalAuth("escalations:read"), response=page_of(schemas.PermissionOut)
)
def permissions_list(
    request: PrincipalRequest, query: Query[schemas.PermissionQuery]
) -> HttpResponse:
    """List permission requests, newest first."""
    rows = visible_requests(request)
    if query.state:
        rows = rows.filter(state__in=parse_states(query.state, PermissionState))
    if query.agent:
        rows = rows.filter(agent=find_agent_id(request.auth, query.agent))
    if query.rule:
        rows = rows.filter(rule_ids__contains=[query.rule])
    return list_response(rows, query, lambda rows: (body_of(request, row) for row in rows))


@router.get(
    "/permissions/{id}", auth=PrincipalAuth("escalations:read"), response=schemas.PermissionOut
)
def permissions_get(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Get a permission request. Reading the decision here does not take it."""
    found = find_visible(visible_requests(request), "permission request", id)
    return json_response(body_of(request, found))


def visible_requests(request: PrincipalRequest) -> PermissionRequestQuerySet:
    rows = PermissionRequest.objects.visible_to(request.auth)
    return rows.select_related("agent").prefetch_related("escalation_set")


@router.post("/permissions/{id}/take", auth=PrincipalAuth(ASK), response=schemas.PermissionOut)
def permissions_take(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Take the decision, if there is one: from then on it can't be undone.

    An agent asks every `poll_after_s` seconds; a request that its agent leaves alone for a minute
    is withdrawn.
    """
    require_agent(request)
    among = PermissionRequest.objects.visible_to(request.auth)
    return json_response(body_of(request, requests.poll(id, among=among, now=server_time.now())))


@router.post("/permissions/{id}/withdraw", auth=PrincipalAuth(ASK), response=schemas.PermissionOut)
def permissions_withdraw(
    request: PrincipalRequest, id: UUID, body: Body[schemas.EndIn | None] = None
) -> HttpResponse:
    """End a request that needs no decision any more, such as when the terminal answered it."""
    require_agent(request)
    there = body is not None and body.answered_there
    ended = requests.end(
        id,
        PermissionState.ANSWERED_THERE if there else PermissionState.WITHDRAWN,
        among=PermissionRequest.objects.visible_to(request.auth),
        stamp=stamp_of(request),
    )
    return json_response(body_of(request, ended))


# ---- rules


@router.get(
    "/permission-rules",
    auth=PrincipalAuth("escalations:read"),
    response=page_of(schemas.PermissionRuleOut),
)
def permission_rules_list(
    request: PrincipalRequest, query: Query[schemas.RuleQuery]
) -> HttpResponse:
    """List permission rules, newest first."""
    rows = PermissionRule.objects.visible_to(request.auth).select_related("agent")
    rows = rows.filter(state=query.state) if query.state else rows
    return list_response(rows, query, PermissionRuleOut)


@router.post(
    "/permission-rules",
    auth=PersonAuth("escalations:resolve"),
    response={201: schemas.PermissionRuleOut},
    openapi_extra={"x-idempotent": True},
)
def permission_rules_create(request: PrincipalRequest, body: schemas.RuleIn) -> HttpResponse:
    """Put a rule into effect; one that is in effect already is returned.

    A call is allowed only if rules allow every command in it and no rule denies it.
    """

    def create() -> tuple[int, Any]:
        rule = rules.create_rule(
            project_id=request.auth.project_id,
            agent=find_agent(request, body.agent),
            tool=body.tool,
            matcher=body.matcher,
            allows=body.allows,
            message=body.message,
            stamp=stamp_of(request),
        )
        return 201, PermissionRuleOut.write(rule)

    return respond_once(request, create)


def find_agent(request: PrincipalRequest, id_or_name: str) -> Agent | None:
    """Return the agent that a rule is for; None if it is for all. Raises UnknownAgent."""
    if not id_or_name:
        return None
    return Agent.objects.get(pk=find_agent_id(request.auth, id_or_name))


@router.post(
    "/permission-rules/trial", auth=PrincipalAuth("escalations:read"), response=schemas.TrialOut
)
def permission_rules_try(request: PrincipalRequest, body: schemas.RuleIn) -> HttpResponse:
    """Tell what a rule would have decided in the last 30 days; nothing is changed."""
    trial = rules.try_rule(
        project_id=request.auth.project_id,
        agent=find_agent(request, body.agent),
        tool=body.tool,
        matcher=body.matcher,
        allows=body.allows,
        now=server_time.now(),
    )
    return json_response(trial_out(trial))


@router.post(
    "/permission-rules/{id}/revoke",
    auth=PersonAuth("escalations:resolve"),
    response=schemas.PermissionRuleOut,
)
def permission_rules_revoke(
    request: PrincipalRequest, id: UUID, body: Body[ReasonIn | None] = None
) -> HttpResponse:
    """End a rule: from now on, people are asked again."""
    require_reason("permission_rule.revoke", [request.auth.project_id], body.reason if body else "")
    rule = rules.revoke_rule(
        id,
        among=PermissionRule.objects.visible_to(request.auth),
        note=body.reason if body else "",
        stamp=stamp_of(request),
    )
    return json_response(PermissionRuleOut.write(rule))
