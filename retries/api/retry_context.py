"""What the next attempt is told, over HTTP; and the answers to claims and reports as bare text.

On the router of `ledger.api.tasks`, as all of `retries.api.attempts` that an agent's loop needs.
"""

from typing import Any
from uuid import UUID

from django.http import HttpResponse
from ninja import Query

from ledger.api.auth import PrincipalAuth, PrincipalRequest, Request
from ledger.api.responses import JSON, answer
from ledger.api.tasks import router, visible
from ledger.models import Agent
from ledger.states import TaskState
from ledger.tasks import fetch_task
from retries.retry_context.history import render_next_context, render_prompt
from retries.schemas.escalations import CLAIMED, RETRY_CONTEXT, BudgetQuery

TEXT, XML = "text/plain", "application/xml"


def said_as(*types: str) -> dict[str, Any]:
    """For the description of an operation: its answer 200 can also be text of these types."""
    texts = {"text/xml": RETRY_CONTEXT, XML: RETRY_CONTEXT, TEXT: CLAIMED["prompt"]}
    content = {each: {"schema": {"type": "string"}, "example": texts[each]} for each in types}
    return {"responses": {200: {"content": content}}}


@router.get(
    "/tasks/{id}/retry-context",
    auth=PrincipalAuth("tasks:read"),
    openapi_extra=said_as("text/xml", XML, TEXT),
)
def tasks_retry_context(
    request: PrincipalRequest, id: UUID, asked: Query[BudgetQuery]
) -> HttpResponse:
    """Read what the next attempt of a task will be told of those before it.

    XML; empty before a first attempt, unless a person's words stand: they are always in it.
    """
    context = render_next_context(visible(request, id), budget=asked.budget)
    return written(context, preferred(request, "text/xml", XML, TEXT))


@router.get("/tasks/{id}/prompt", auth=PrincipalAuth("tasks:read"), openapi_extra=said_as(TEXT))
def tasks_prompt(request: PrincipalRequest, id: UUID, asked: Query[BudgetQuery]) -> HttpResponse:
    """Read the prompt of the next attempt: system text, retry context, then the task as XML.

    The system text is its agent's. `budget` is for the retry context alone.
    """
    row = visible(request, id)
    system = Agent.objects.values_list("system_text", flat=True).get(pk=row["agent_id"])
    context = render_next_context(row, budget=asked.budget)
    return written(render_prompt(row, context, system=system), TEXT)


# ---- the agent's loop in a shell


def of_claim(request: Request, claim: dict[str, Any]) -> HttpResponse:
    """What was claimed: as JSON, or the prompt alone as text, or the retry context as XML.

    The header Tenfour-Attempt names the attempt to report; without one there was nothing.
    """
    kind = preferred(request, JSON, TEXT, XML)
    if kind == JSON:
        return answer(claim)
    field = "prompt" if kind == TEXT else "retry_context"
    response = written("\n\n".join(each[field] for each in claim["data"]), kind)
    if claim["data"]:
        ids = [str(each["attempt"]["id"]) for each in claim["data"]]
        response["Tenfour-Attempt"] = ", ".join(ids)
    return response


def of_decision(request: Request, decision: dict[str, Any]) -> HttpResponse:
    """The decision: as JSON, or what the next attempt is told as text; nothing where none comes."""
    kind = preferred(request, JSON, TEXT, XML)
    if kind == JSON:
        return answer(decision)
    if following := decision.get("retry"):
        response = written(decision["prompt" if kind == TEXT else "retry_context"], kind)
        response["Tenfour-Attempt"] = str(following["attempt"])
        return response
    row = fetch_task(UUID(decision["task"]["id"])) if decision["decision"] == "wait" else None
    # Where another worker has it by now, what comes next is not for this one.
    waits = row is not None and row["state"] == TaskState.RETRY
    return written(render_next_context(row) if row and waits else "", kind)


def preferred(request: Request, first: str, *others: str) -> str:
    """Which of these types the caller likes best; the first where it has no preference."""
    accepted = request.META.get("HTTP_ACCEPT", "")
    if not any(each in accepted for each in others):
        return first
    return request.get_preferred_type([first, *others]) or first


def written(text: str, kind: str) -> HttpResponse:
    return HttpResponse(text, content_type=f"{kind}; charset=utf-8")
