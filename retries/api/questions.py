"""What agents ask of people over HTTP.

On the router of `ledger.api.tasks`: an address has one router, whoever offers its methods.
"""

from typing import Any
from uuid import UUID

from django.http import HttpResponse

from ledger.api.auth import PrincipalAuth, PrincipalRequest, actor
from ledger.api.responses import idempotent, linked
from ledger.api.tasks import router
from ledger.errors import NotFound
from ledger.models import Agent
from ledger.tokens import TrustedCaller
from retries.attempts import questions
from retries.escalations.lifecycle import Question
from retries.schemas import escalations
from retries.schemas.escalations import escalation_out


@router.post(
    "/attempts/{id}/escalate",
    auth=PrincipalAuth("tasks:work"),
    response={201: escalations.EscalationOut},
    tags=["attempts"],
    openapi_extra={"x-idempotent": True},
)
def attempts_escalate(request: PrincipalRequest, id: UUID, body: escalations.AskIn) -> HttpResponse:
    """Ask a person: the attempt ends and does not count, and the task waits for the answer.

    The answer stands first in what the next attempt is told.
    """

    def work() -> tuple[int, Any]:
        asked = questions.ask(id, question_of(body), caller=own(request, id))
        return 201, linked(request, escalation_out(asked))

    return idempotent(request, work)


def own(request: PrincipalRequest, attempt_id: UUID) -> TrustedCaller:
    """The agent as the caller of statements; raises NotFound where the attempt is another's."""
    agent = Agent.objects.filter(attempt__pk=attempt_id).first()
    if agent is None or agent.pk != request.auth.agent_id:
        raise NotFound(f"There is no attempt {attempt_id} of this agent.")
    return TrustedCaller(actor(request.auth), agent=agent, request_id=request.id)


def question_of(body: escalations.AskIn) -> Question:
    return Question(
        text=body.question,
        choices=[choice.model_dump() for choice in body.options],
        response_schema=body.response_schema,
        severity=body.severity,
        client_state=body.client_state,
        expires_at=body.expires_at,
        on_expiry=body.on_expiry,
    )
