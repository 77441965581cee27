"""Escalation policies and rotas over HTTP: who is told of an escalation, and what comes next."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.http import HttpResponse
from ninja import Query, Router

from ledger.api.auth import PrincipalAuth, PrincipalRequest, stamp_of
from ledger.api.parameters import parse_if_match
from ledger.api.reading import find_visible, list_response
from ledger.api.responses import json_response, respond_once
from ledger.database import server_time
from ledger.errors import Invalid
from ledger.models import Project
from ledger.schemas.shared import In, ListQuery, page_of
from ledger.values.timestamps import format_timestamp
from retries.api.escalations import PersonAuth
from retries.models import EscalationPolicy, Rota
from retries.on_call import editing
from retries.on_call.directories import read_schedule
from retries.on_call.rotas import list_periods
from retries.schemas.settings import on_call as schemas
from retries.schemas.settings.on_call import EscalationPolicyOut, RotaOut

router = Router(tags=["on call"])
READ, WRITE = PrincipalAuth("events:read"), PersonAuth("escalations:resolve")
PREVIEW = timedelta(days=7)


@router.get("/escalation-policies", auth=READ, response=page_of(EscalationPolicyOut))
def escalation_policies_list(request: PrincipalRequest, query: Query[ListQuery]) -> HttpResponse:
    """List the project's escalation policies, newest first; `position` is their order."""
    return list_rows(request, EscalationPolicy, query)


@router.post(
    "/escalation-policies",
    auth=WRITE,
    response={201: EscalationPolicyOut},
    openapi_extra={"x-idempotent": True},
)
def escalation_policies_create(
    request: PrincipalRequest, body: schemas.EscalationPolicyIn
) -> HttpResponse:
    """Create a policy that says who is told of an escalation, when, and what comes next.

    Open escalations without a policy get it at once, if its conditions hold. A default answer is
    given only if it is a policy's last step, once in a row for a task, and never to a permission
    request or to a question for a secret.
    """
    return create_row(request, editing.create_policy, body)


@router.get("/escalation-policies/{id}", auth=READ, response=EscalationPolicyOut)
def escalation_policies_get(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Get an escalation policy."""
    return row_response(find_row(request, EscalationPolicy, id))


@router.patch("/escalation-policies/{id}", auth=WRITE, response=EscalationPolicyOut)
def escalation_policies_update(
    request: PrincipalRequest, id: UUID, body: schemas.EscalationPolicyPatch
) -> HttpResponse:
    """Change a policy; its open escalations go on with its new steps.

    The `If-Match` header must contain the ETag of the version you read.
    """
    return update_row(request, EscalationPolicy, id, editing.update_policy, body)


@router.delete("/escalation-policies/{id}", auth=WRITE, response=EscalationPolicyOut)
def escalation_policies_delete(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Delete a policy; its open escalations get another one whose conditions hold."""
    return delete_row(request, EscalationPolicy, id)


@router.get("/rotas", auth=READ, response=page_of(RotaOut))
def rotas_list(request: PrincipalRequest, query: Query[ListQuery]) -> HttpResponse:
    """List the project's rotas with who is on call in the next 7 days, newest first."""
    return list_rows(request, Rota, query)


@router.post("/rotas", auth=WRITE, response={201: RotaOut}, openapi_extra={"x-idempotent": True})
def rotas_create(request: PrincipalRequest, body: schemas.RotaIn) -> HttpResponse:
    """Create a rota: who is on call by weekday and local time, and who is otherwise.

    A shift that ends at or before its start ends on the next day. Of shifts that overlap, the first
    one counts. When clocks change, a time that they skip is the moment at which they do, and a time
    that comes twice is the first.
    """
    return create_row(request, editing.create_rota, body)


@router.get("/rotas/{id}", auth=READ, response=RotaOut)
def rotas_get(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Get a rota with who is on call in the next 7 days."""
    return row_response(find_row(request, Rota, id))


@router.patch("/rotas/{id}", auth=WRITE, response=RotaOut)
def rotas_update(request: PrincipalRequest, id: UUID, body: schemas.RotaPatch) -> HttpResponse:
    """Change a rota; people who have been told keep their escalations.

    The `If-Match` header must contain the ETag of the version you read.
    """
    return update_row(request, Rota, id, editing.update_rota, body)


@router.delete("/rotas/{id}", auth=WRITE, response=RotaOut)
def rotas_delete(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Delete a rota that no policy names."""
    return delete_row(request, Rota, id)


# ---- both nouns


def describe(row: Any) -> dict[str, Any]:
    if isinstance(row, EscalationPolicy):
        return EscalationPolicyOut.write(row)
    now = server_time.now()
    periods = list_periods(read_schedule(row), since=now, until=now + PREVIEW)
    return RotaOut.write(
        row,
        on_call=[
            {
                "starts_at": format_timestamp(each.starts_at),
                "ends_at": format_timestamp(each.ends_at),
                "people": list(each.people),
            }
            for each in periods
        ],
    )


def list_rows(request: PrincipalRequest, model: Any, query: ListQuery) -> HttpResponse:
    rows = model.objects.visible_to(request.auth)
    return list_response(rows, query, lambda rows: map(describe, rows))


def create_row(request: PrincipalRequest, create: Any, body: In) -> HttpResponse:
    def run() -> tuple[int, Any]:
        values = {name: value for name, value in body.model_dump().items() if value is not None}
        project = Project.objects.get(pk=request.auth.project_id)
        return 201, describe(create(project, stamp=stamp_of(request), **values))

    return respond_once(request, run)


def find_row(request: PrincipalRequest, model: Any, id: UUID) -> Any:
    return find_visible(model.objects.visible_to(request.auth), editing.KINDS[model][0], id)


def row_response(row: Any) -> HttpResponse:
    return json_response(describe(row), version=row.version)


def update_row(
    request: PrincipalRequest, model: Any, id: UUID, update: Any, body: In
) -> HttpResponse:
    sent = body.model_dump(exclude_unset=True)
    for name, value in sent.items():
        if value is None:
            raise Invalid(f"/{name}", "The value must not be null; leave it out to keep it.")
    found = find_row(request, model, id)
    changed = update(found.pk, version=parse_if_match(request), stamp=stamp_of(request), **sent)
    return row_response(changed)


def delete_row(request: PrincipalRequest, model: Any, id: UUID) -> HttpResponse:
    found = find_row(request, model, id)
    return json_response(describe(editing.delete(model, found.pk, stamp=stamp_of(request))))
