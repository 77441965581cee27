"""Circuit breakers over HTTP: trip, keep open and reset an agent's breaker by hand."""

from django.http import HttpResponse
from ninja import Body, Router

from ledger.api.agents import agent_response, find_agent
from ledger.api.auth import PrincipalAuth, PrincipalRequest, stamp_of
from ledger.errors import InvalidTransition
from ledger.models import Agent, Breaker
from ledger.pools import membership
from ledger.schemas.agents import AgentOut
from ledger.states import BreakerState
from retries import breaker_actions
from retries.schemas.operator_actions import KeepOpenIn, TripIn

router = Router(tags=["agents"])


@router.post("/agents/{id}/breaker/trip", auth=PrincipalAuth("agents:write"), response=AgentOut)
def agents_trip_breaker(
    request: PrincipalRequest, id: str, body: Body[TripIn | None] = None
) -> HttpResponse:
    """Open the agent's breaker: the agent gets no tasks until the breaker lets a probe through."""
    reason = (body.reason if body else "").strip() or "by hand"
    agents = membership.expand([find_agent(request, id)])
    breaker_actions.trip(agents, reason=reason, stamp=stamp_of(request))
    return agent_response(request, id)


@router.post(
    "/agents/{id}/breaker/keep-open", auth=PrincipalAuth("agents:write"), response=AgentOut
)
def agents_keep_breaker_open(
    request: PrincipalRequest, id: str, body: Body[KeepOpenIn | None] = None
) -> HttpResponse:
    """Keep the agent's open breaker open until a person closes it or has it tested.

    A half-open breaker opens again. A closed one is refused with `invalid_transition`.
    """
    agent = find_agent(request, id)
    reason = body.reason if body else ""
    if not breaker_actions.keep_open(
        membership.expand([agent]), reason=reason, stamp=stamp_of(request)
    ):
        check_kept_open(agent)
    return agent_response(request, id)


def check_kept_open(agent: Agent) -> None:
    if not Breaker.objects.filter(pk=agent.pk, kept_open_at__isnull=False).exists():
        raise InvalidTransition(
            "The breaker is closed. Trip it to open it.",
            current=BreakerState.CLOSED,
            allowed=[BreakerState.OPEN],
        )


@router.post("/agents/{id}/breaker/reset", auth=PrincipalAuth("agents:write"), response=AgentOut)
def agents_reset_breaker(request: PrincipalRequest, id: str) -> HttpResponse:
    """Close the agent's breaker and clear its failure count."""
    agent = find_agent(request, id)
    breaker_actions.reset(membership.expand([agent]), stamp=stamp_of(request))
    return agent_response(request, id)
