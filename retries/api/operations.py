"""Operations over HTTP: how far actions on many rows are, and how they ended."""

from uuid import UUID

from django.db.models import Count
from django.http import HttpResponse
from ninja import Query, Router

from ledger.api.auth import PrincipalAuth, PrincipalRequest
from ledger.api.parameters import parse_states
from ledger.api.reading import find_visible, list_response
from ledger.api.responses import json_response
from ledger.schemas.shared import page_of
from retries.models import Operation
from retries.models.operation import ItemState, OperationState
from retries.schemas import operations as schemas
from retries.schemas.operations import OperationDetailOut, OperationOut

router = Router(tags=["operations"])


@router.get(
    "/operations",
    auth=PrincipalAuth("events:read"),
    response=page_of(schemas.OperationOut, "operations, newest first"),
)
def operations_list(
    request: PrincipalRequest, query: Query[schemas.OperationQuery]
) -> HttpResponse:
    """List the actions on many rows that people started, newest first."""
    rows = Operation.objects.visible_to(request.auth)
    if query.state:
        rows = rows.filter(state__in=parse_states(query.state, OperationState))
    return list_response(rows, query, OperationOut)


@router.get("/operations/{id}", auth=PrincipalAuth("events:read"), response=OperationDetailOut)
def operations_get(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Get an action on many rows: its progress or its result, and why rows were left."""
    row = find_visible(Operation.objects.visible_to(request.auth), "operation", id)
    refused = row.items.filter(state=ItemState.REFUSED).order_by().values("refusal")
    counts = refused.annotate(count=Count("*")).order_by("-count", "refusal")
    refusals = [{"why": each["refusal"], "count": each["count"]} for each in counts]
    return json_response(OperationDetailOut.write(row, refusals=refusals))
