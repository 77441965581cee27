"""The files of the older systems over HTTP, of the project and of each plan."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.http import HttpResponse, StreamingHttpResponse
from django.utils import timezone
from ninja import Query, Router

from ledger.api.auth import PrincipalAuth, PrincipalRequest
from ledger.api.responses import answer
from ledger.errors import NotFound
from ledger.models import Plan
from retries.renderings import documents, plan_summary, schemas, state_queries
from retries.renderings.scope import RenderingScope

router = Router(tags=["renderings"])

JSON, TEXT, LINES, MARKDOWN = (
    "application/json",
    "text/plain",
    "application/x-ndjson",
    "text/markdown",
)


def says(media: str, example: str) -> dict[str, Any]:
    """What OpenAPI is told of an answer that is not made from a schema."""
    content = {media: {"schema": {"type": "string"}, "example": example}}
    return {"responses": {200: {"description": "OK", "content": content}}}


LOG = says(TEXT, schemas.LOG)
JSONL = says(LINES, schemas.JSONL)
STATE = says(MARKDOWN, schemas.STATE)


def streamed(pieces: Iterable[str], media: str) -> StreamingHttpResponse:
    """A text of any length: it is read from the database as it goes out."""
    kind = media if media == JSON else f"{media}; charset=utf-8"
    return StreamingHttpResponse(pieces, content_type=kind)


def project(request: PrincipalRequest) -> RenderingScope:
    return RenderingScope(request.auth.project_id)


def found(request: PrincipalRequest, id: str) -> Plan:
    """The plan of this id or ref; raises NotFound."""
    plans = Plan.objects.visible_to(request.auth)
    try:
        plan = plans.filter(pk=UUID(id)).first()
    except ValueError:
        plan = plans.filter(ref=id).first()
    if plan is None:
        raise NotFound(f"There is no plan {id} that this token may see.")
    return plan


def about(request: PrincipalRequest, id: str) -> RenderingScope:
    return RenderingScope(request.auth.project_id, found(request, id))


# ---- of the project


@router.get("/retry-state.json", auth=PrincipalAuth("events:read"), response=schemas.RetryState)
def renderings_retry_state(request: PrincipalRequest) -> StreamingHttpResponse:
    """Read what is being tried at the moment, as retry-state.json.

    An entry begins when its task starts and leaves when it succeeds.
    """
    return streamed(documents.render_state(project(request)), JSON)


@router.get("/retry.log", auth=PrincipalAuth("events:read"), openapi_extra=LOG)
def renderings_retry_log(
    request: PrincipalRequest, asked: Query[schemas.TailQuery]
) -> StreamingHttpResponse:
    """Read the last 7 days of attempts, feedback, questions and answers as lines of text."""
    lines = documents.render_log(project(request), now=timezone.now(), tail=asked.tail)
    return streamed(lines, TEXT)


@router.get("/retry.jsonl", auth=PrincipalAuth("events:read"), openapi_extra=JSONL)
def renderings_retry_jsonl(
    request: PrincipalRequest, asked: Query[schemas.TailQuery]
) -> StreamingHttpResponse:
    """Read the last 30 days of the same, one JSON object a line."""
    lines = documents.render_jsonl(project(request), now=timezone.now(), tail=asked.tail)
    return streamed(lines, LINES)


@router.get("/state.md", auth=PrincipalAuth("events:read"), openapi_extra=STATE)
def renderings_state(request: PrincipalRequest) -> StreamingHttpResponse:
    """Read which tasks were skipped, why, and what depends on them."""
    return streamed(documents.render_skips(project(request)), MARKDOWN)


# ---- of one plan


@router.get(
    "/plans/{id}/retry-state.json", auth=PrincipalAuth("events:read"), response=schemas.RetryState
)
def plans_retry_state(request: PrincipalRequest, id: str) -> StreamingHttpResponse:
    """Read what is being tried of one plan, by its id or ref, as retry-state.json."""
    return streamed(documents.render_state(about(request, id)), JSON)


@router.get("/plans/{id}/retry.log", auth=PrincipalAuth("events:read"), openapi_extra=LOG)
def plans_retry_log(
    request: PrincipalRequest, id: str, asked: Query[schemas.TailQuery]
) -> StreamingHttpResponse:
    """Read the last 7 days of one plan, by its id or ref, as lines of text."""
    lines = documents.render_log(about(request, id), now=timezone.now(), tail=asked.tail)
    return streamed(lines, TEXT)


@router.get("/plans/{id}/retry.jsonl", auth=PrincipalAuth("events:read"), openapi_extra=JSONL)
def plans_retry_jsonl(
    request: PrincipalRequest, id: str, asked: Query[schemas.TailQuery]
) -> StreamingHttpResponse:
    """Read the last 30 days of one plan, by its id or ref, one JSON object a line."""
    lines = documents.render_jsonl(about(request, id), now=timezone.now(), tail=asked.tail)
    return streamed(lines, LINES)


@router.get("/plans/{id}/state.md", auth=PrincipalAuth("events:read"), openapi_extra=STATE)
def plans_state(request: PrincipalRequest, id: str) -> StreamingHttpResponse:
    """Read which tasks of one plan, by its id or ref, were skipped, and why."""
    return streamed(documents.render_skips(about(request, id)), MARKDOWN)


@router.get(
    "/plans/{id}/summary",
    auth=PrincipalAuth("tasks:read"),
    response=schemas.PlanSummary,
    openapi_extra=says(MARKDOWN, schemas.SUMMARY),
)
def plans_summary(request: PrincipalRequest, id: str) -> HttpResponse:
    """Read how the tasks of a plan fared, at its end and any time before.

    By its id or ref; JSON, or Markdown for `Accept: text/markdown`.
    """
    summary = state_queries.build_summary(found(request, id))
    if prefers_markdown(request):
        return HttpResponse(
            plan_summary.render_markdown(summary), content_type=f"{MARKDOWN}; charset=utf-8"
        )
    return answer(plan_summary.serialize_summary(summary))


def prefers_markdown(request: PrincipalRequest) -> bool:
    best = request.get_preferred_type([JSON, MARKDOWN, TEXT])
    return best in (MARKDOWN, TEXT)
