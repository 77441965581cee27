"""Questions over HTTP: an agent asks a person about the task it works on."""

from typing import Any
from uuid import UUID

from django.http import HttpResponse
from ninja import Router

from ledger.api.auth import PrincipalAuth, PrincipalRequest, actor
from ledger.api.responses import complete_url, respond_once
from ledger.errors import NotFound
from ledger.models import Agent
from ledger.tokens import TrustedCaller
from retries.attempts import questions
from retries.escalations.lifecycle import Question
from retries.schemas.attempts import AskIn
from retries.schemas.escalations import EscalationOut, escalation_out

router = Router(tags=["attempts"])


@router.post(
    "/attempts/{id}/escalate",
    auth=PrincipalAuth("tasks:work"),
    response={201: EscalationOut},
    openapi_extra={"x-idempotent": True},
)
def attempts_escalate(request: PrincipalRequest, id: UUID, body: AskIn) -> HttpResponse:
    """Ask a person a question: the attempt ends without counting, and the task waits.

    The answer comes first in what the next attempt is told.
    """

    def ask() -> tuple[int, Any]:
        escalation = questions.ask(id, question_of(body), caller=agent_caller(request, id))
        return 201, complete_url(escalation_out(escalation))

    return respond_once(request, ask)


def agent_caller(request: PrincipalRequest, attempt_id: UUID) -> TrustedCaller:
    # Another agent's attempt gives the same answer as one that does not exist.
    agent = Agent.objects.filter(attempt__pk=attempt_id).first()
    if agent is None or agent.pk != request.auth.agent_id:
        raise NotFound(f"This agent has no attempt with id {attempt_id}.")
    return TrustedCaller(actor(request.auth), agent=agent, request_id=request.id)


def question_of(body: AskIn) -> Question:
    return Question(
        text=body.question,
        choices=[choice.model_dump() for choice in body.options],
        response_schema=body.response_schema,
        severity=body.severity,
        client_state=body.client_state,
        expires_at=body.expires_at,
        on_expiry=body.on_expiry,
    )
