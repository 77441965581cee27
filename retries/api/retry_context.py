"""The context of a task's next attempt, over HTTP."""

from uuid import UUID

from django.http import HttpResponse
from ninja import Query, Router

from ledger.api.auth import PrincipalAuth, PrincipalRequest
from ledger.api.tasks import find_task
from ledger.models import Agent
from retries.api.text_responses import (
    TEXT,
    TEXT_XML,
    XML,
    preferred_type,
    text_content,
    text_response,
)
from retries.retry_context.history import render_next_context, render_prompt
from retries.schemas.claims import BudgetQuery

router = Router(tags=["tasks"])


@router.get(
    "/tasks/{id}/retry-context",
    auth=PrincipalAuth("tasks:read"),
    openapi_extra=text_content(TEXT_XML, XML, TEXT),
)
def tasks_get_retry_context(
    request: PrincipalRequest, id: UUID, query: Query[BudgetQuery]
) -> HttpResponse:
    """Get the retry context of a task's next attempt, as XML.

    Before the first attempt it is empty, unless a person has given instructions. Those are always
    included in full; a secret in them is shown to the task's agent alone.
    """
    row, typed = find_task(request, id), request.auth.is_agent
    context = render_next_context(row, typed=typed, budget=query.budget)
    return text_response(context, preferred_type(request, TEXT_XML, XML, TEXT))


@router.get(
    "/tasks/{id}/prompt", auth=PrincipalAuth("tasks:read"), openapi_extra=text_content(TEXT)
)
def tasks_get_prompt(
    request: PrincipalRequest, id: UUID, query: Query[BudgetQuery]
) -> HttpResponse:
    """Get the prompt of a task's next attempt: system text, retry context, and task as XML.

    The system text belongs to the task's agent. `budget` limits only the retry context.
    """
    row = find_task(request, id)
    system = Agent.objects.values_list("system_text", flat=True).get(pk=row["agent_id"])
    context = render_next_context(row, typed=request.auth.is_agent, budget=query.budget)
    return text_response(render_prompt(row, context, system=system), TEXT)
