"""Responses to claims and reports as plain text, for shells: the prompt or the retry context."""

from typing import Any
from uuid import UUID

from django.http import HttpResponse

from ledger.api.auth import Request
from ledger.api.responses import JSON, json_response
from ledger.states import TaskState
from ledger.tasks import fetch_task
from retries.retry_context.history import render_next_context
from retries.schemas.claims import PROMPT, RETRY_CONTEXT

TEXT, XML, TEXT_XML = "text/plain", "application/xml", "text/xml"
EXAMPLES = {TEXT_XML: RETRY_CONTEXT, XML: RETRY_CONTEXT, TEXT: PROMPT}


def text_content(*types: str) -> dict[str, Any]:
    content = {media: {"schema": {"type": "string"}, "example": EXAMPLES[media]} for media in types}
    return {"responses": {200: {"content": content}}}


def claim_response(request: Request, claim: dict[str, Any]) -> HttpResponse:
    """Return a claim as JSON, its prompts as text, or its retry contexts as XML."""
    # Text has the attempts' ids in the header Tenfour-Attempt; for an empty claim, Tenfour-Reason
    # says why.
    media = preferred_type(request, JSON, TEXT, XML)
    if media == JSON:
        return json_response(claim)
    field = "prompt" if media == TEXT else "retry_context"
    response = text_response("\n\n".join(each[field] for each in claim["data"]), media)
    if claim["data"]:
        ids = [str(each["attempt"]["id"]) for each in claim["data"]]
        response["Tenfour-Attempt"] = ", ".join(ids)
    elif claim["reason"]:
        response["Tenfour-Reason"] = claim["reason"]
    return response


def decision_response(request: Request, decision: dict[str, Any]) -> HttpResponse:
    """Return a decision as JSON, or what it tells the next attempt as text or XML."""
    # Text is empty if no attempt follows.
    media = preferred_type(request, JSON, TEXT, XML)
    if media == JSON:
        return json_response(decision)
    if retry := decision.get("retry"):
        response = text_response(decision["prompt" if media == TEXT else "retry_context"], media)
        response["Tenfour-Attempt"] = str(retry["attempt"])
        return response
    row = fetch_task(UUID(decision["task"]["id"])) if decision["decision"] == "wait" else None
    # If another worker has the task by now, the retry context is not for this one.
    waits = row is not None and row["state"] == TaskState.RETRY
    return text_response(render_next_context(row, typed=True) if row and waits else "", media)


def preferred_type(request: Request, default: str, *others: str) -> str:
    accept = request.META.get("HTTP_ACCEPT", "")
    # Most calls accept anything, and parsing the header costs more than this search.
    if not any(media in accept for media in others):
        return default
    return request.get_preferred_type([default, *others]) or default


def text_response(text: str, media: str) -> HttpResponse:
    return HttpResponse(text, content_type=f"{media}; charset=utf-8")
