"""The breaker of an agent by hand, over HTTP: on the router of `ledger.api.agents`."""

from uuid import UUID

from django.http import HttpResponse
from ninja import Body

from ledger.api.agents import found, router, shown
from ledger.api.auth import PrincipalAuth, PrincipalRequest, actor
from ledger.api.responses import answer
from ledger.redaction import clean, redacted
from ledger.schemas.agents import AgentOut
from retries import breaker
from retries.schemas import escalations


@router.post("/agents/{id}/breaker/trip", auth=PrincipalAuth("agents:write"), response=AgentOut)
def agents_trip_breaker(
    request: PrincipalRequest, id: UUID, body: Body[escalations.TripIn | None] = None
) -> HttpResponse:
    """Open the agent's breaker: it gets no tasks until the time of an open one has passed."""
    reason = clean(redacted(body.reason), limit_bytes=escalations.REASON_BYTES) if body else ""
    breaker.trip(
        [found(request, id)],
        reason=reason or "by hand",
        actor=actor(request.auth),
        request_id=request.id,
    )
    return answer(shown(request, id))


@router.post("/agents/{id}/breaker/reset", auth=PrincipalAuth("agents:write"), response=AgentOut)
def agents_reset_breaker(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Close the agent's breaker and forget its failures."""
    breaker.reset([found(request, id)], actor=actor(request.auth), request_id=request.id)
    return answer(shown(request, id))
