"""Deliveries over HTTP: what was sent to channels, how it ended, and sending it again."""

from uuid import UUID

from django.http import HttpResponse
from ninja import Query, Router

from ledger.api.auth import PrincipalAuth, PrincipalRequest
from ledger.api.parameters import parse_states
from ledger.api.reading import find_visible, list_response
from ledger.api.responses import json_response
from ledger.database import server_time
from ledger.errors import Invalid, InvalidTransition
from ledger.schemas.shared import page_of
from retries.models import Delivery
from retries.models.notification_delivery import DeliveryState
from retries.notifications.deliveries import redelivery
from retries.schemas import deliveries as schemas
from retries.schemas.deliveries import DeliveryDetailOut, DeliveryOut

router = Router(tags=["notifications"])
WRITE = "webhooks:write"


@router.get("/deliveries", auth=PrincipalAuth(WRITE), response=page_of(schemas.DeliveryOut))
def deliveries_list(request: PrincipalRequest, query: Query[schemas.DeliveryQuery]) -> HttpResponse:
    """List the deliveries to the project's channels, newest first."""
    rows = Delivery.objects.visible_to(request.auth).select_related("channel")
    if query.channel:
        rows = rows.filter(channel=parse_id(query.channel))
    if query.state:
        rows = rows.filter(state__in=parse_states(query.state, DeliveryState))
    if query.kind:
        rows = rows.filter(kind=query.kind)
    return list_response(rows, query, DeliveryOut)


@router.get("/deliveries/{id}", auth=PrincipalAuth(WRITE), response=DeliveryDetailOut)
def deliveries_get(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Get a delivery with its body and every try."""
    return json_response(DeliveryDetailOut.write(find_delivery(request, id)))


@router.post("/deliveries/{id}/redeliver", auth=PrincipalAuth(WRITE), response=DeliveryOut)
def deliveries_redeliver(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Send a delivery again with the same `webhook-id`, and with a new round of tries."""
    found = find_delivery(request, id)
    if not redelivery.redeliver(found, now=server_time.now()):
        raise InvalidTransition(
            "The delivery was sent in a summary.", current=found.state, allowed=[]
        )
    return json_response(DeliveryOut.write(find_delivery(request, id)))


def find_delivery(request: PrincipalRequest, id: UUID) -> Delivery:
    rows = Delivery.objects.visible_to(request.auth).select_related("channel")
    return find_visible(rows, "delivery", id)


def parse_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError as error:
        raise Invalid("/channel", f"'{text}' is not a channel's id.") from error
