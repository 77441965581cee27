"""A project's policies over HTTP: everyone but agents reads them, people change them."""

from django.http import HttpResponse
from ninja import Router

from ledger.api.auth import PrincipalAuth, PrincipalRequest, stamp_of
from ledger.api.parameters import parse_if_match
from ledger.api.responses import json_response
from ledger.models import Project
from retries.api.escalations import PersonAuth
from retries.models import RetryPolicy
from retries.policies import editing
from retries.schemas.policies import PoliciesOut, PoliciesPatch

router = Router(tags=["policies"])


@router.get("/policies", auth=PrincipalAuth("events:read"), response=PoliciesOut)
def policies_get(request: PrincipalRequest) -> HttpResponse:
    """Get the project's policies for decisions about failures."""
    return policies_response(editing.read_policies(request.auth.project_id))


@router.patch("/policies", auth=PersonAuth("escalations:resolve"), response=PoliciesOut)
def policies_update(request: PrincipalRequest, body: PoliciesPatch) -> HttpResponse:
    """Switch policies on or off, from the next failure on.

    The `If-Match` header must contain the ETag of the version you read.
    """
    sent = body.model_dump(exclude_none=True, exclude={"reason", "reason_verbs", "search_keys"})
    changed = editing.change_policies(
        Project.objects.get(pk=request.auth.project_id),
        {name: str(scope) for name, scope in sent.items()},
        reason_verbs=body.reason_verbs,
        search_keys=body.search_keys,
        version=parse_if_match(request),
        reason=body.reason,
        stamp=stamp_of(request),
    )
    return policies_response(changed)


def policies_response(policies: RetryPolicy) -> HttpResponse:
    return json_response(PoliciesOut.write(policies), version=policies.version)
