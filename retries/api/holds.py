"""Holds over HTTP: an agent's Stop hook asks whether the agent may stop."""

from typing import Any

from django.http import HttpResponse
from ninja import Body, Router

from ledger.api.auth import PrincipalAuth, PrincipalRequest, stamp_of
from ledger.api.responses import json_response
from ledger.models import Agent
from ledger.schemas.standing_instructions import HeldOut, HoldIn, HoldOut
from ledger.tokens import ScopeMissing
from retries.tasks.holds import MOST_HOLDS, Hold, hold_stop

router = Router(tags=["standing instructions"])


@router.post(
    "/standing-instructions/hold", auth=PrincipalAuth("instructions:ack"), response=HoldOut
)
def standing_instructions_hold(
    request: PrincipalRequest, body: Body[HoldIn | None] = None
) -> HttpResponse:
    """Ask whether the agent may stop.

    It must not stop while an instruction is open whose rule holds the stop. Each such response
    counts. After seven, the instruction fails, the agent may stop, and a person is asked.
    """
    if request.auth.agent_id is None:
        raise ScopeMissing("This call acts on an agent's own queue and needs an agent's token.")
    agent = Agent.objects.get(pk=request.auth.agent_id)
    session = body.session if body else ""
    return json_response(hold_out(hold_stop(agent, session=session, stamp=stamp_of(request))))


def hold_out(hold: Hold) -> dict[str, Any]:
    return {
        "hold": bool(hold.held),
        "text": hold.text,
        "instructions": [
            HeldOut.write(row, holds_left=MOST_HOLDS - row["holds"]) for row in hold.held
        ],
        "let_go": [row["id"] for row in hold.let_go],
        "escalations": hold.escalations,
    }
