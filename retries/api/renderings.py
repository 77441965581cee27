"""The ledger in the file formats of earlier systems, for the project and for each plan."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse
from ninja import Query, Router

from ledger.api.auth import PrincipalAuth, PrincipalRequest
from ledger.api.events import parse_cursor, write_cursor
from ledger.api.parameters import find_plan
from ledger.api.responses import json_response
from ledger.database import server_time
from ledger.errors import Invalid
from retries.renderings import documents, plan_summary, schemas, state_queries
from retries.renderings.scope import RenderingScope

router = Router(tags=["renderings"])

JSON, TEXT, LINES, MARKDOWN, YAML = (
    "application/json",
    "text/plain",
    "application/x-ndjson",
    "text/markdown",
    "application/yaml",
)


def text_content(media: str, example: str) -> dict[str, Any]:
    # YAML is no string to its reader: it is any number of documents, also none.
    schema = {} if media == YAML else {"type": "string"}
    content = {media: {"schema": schema, "example": example}}
    return {"responses": {200: {"description": "OK", "content": content}}}


LOG_RENDERERS = (TEXT, documents.render_log, documents.follow_log)
JSONL_RENDERERS = (LINES, documents.render_jsonl, documents.follow_jsonl)
LOG = text_content(TEXT, schemas.LOG)
JSONL = text_content(LINES, schemas.JSONL)
STATE = text_content(MARKDOWN, schemas.STATE)
RECORDS = text_content(YAML, schemas.RECORDS)


def stream(pieces: Iterable[str], media: str) -> StreamingHttpResponse:
    # The response can have any length, so it is read from the database while it is sent.
    content_type = media if media == JSON else f"{media}; charset=utf-8"
    return StreamingHttpResponse(pieces, content_type=content_type)


def project_scope(request: PrincipalRequest) -> RenderingScope:
    return RenderingScope(request.auth.project_id)


def plan_scope(request: PrincipalRequest, id: str) -> RenderingScope:
    return RenderingScope(request.auth.project_id, find_plan(request.auth, id))


def send_log(
    scope: RenderingScope,
    query: schemas.LogQuery,
    media: str,
    render: Callable[..., Iterator[str]],
    follow: Callable[..., documents.Piece],
) -> HttpResponseBase:
    now = server_time.now()
    if query.after is None:
        return stream(render(scope, now=now, tail=query.tail), media)
    if query.tail is not None:
        raise Invalid("/tail", "'after' can't be combined with 'tail'.")
    piece = follow(scope, parse_cursor(query.after) if query.after else None, now=now)
    response = HttpResponse(piece.text, content_type=f"{media}; charset=utf-8")
    response["Next-Cursor"] = write_cursor(piece.end) or ""
    response["Has-More"] = "true" if piece.has_more else "false"
    return response


def send_records(scope: RenderingScope, query: schemas.TailQuery) -> StreamingHttpResponse:
    return stream(documents.render_records(scope, now=server_time.now(), tail=query.tail), YAML)


# ---- the project


@router.get("/retry-state.json", auth=PrincipalAuth("events:read"), response=schemas.RetryState)
def renderings_get_retry_state(request: PrincipalRequest) -> StreamingHttpResponse:
    """Get the current retry state, as retry-state.json.

    A task has an entry from its start until it succeeds.
    """
    return stream(documents.render_state(project_scope(request)), JSON)


@router.get("/retry.log", auth=PrincipalAuth("events:read"), openapi_extra=LOG)
def renderings_get_retry_log(
    request: PrincipalRequest, query: Query[schemas.LogQuery]
) -> HttpResponseBase:
    """Get the last 7 days of attempts, feedback, questions, and answers as lines of text.

    With `after`, get what was added since: the header Next-Cursor is the next `after`, and Has-More
    says whether more lines are there already. No line is missed or comes twice.
    """
    return send_log(project_scope(request), query, *LOG_RENDERERS)


@router.get("/retry.jsonl", auth=PrincipalAuth("events:read"), openapi_extra=JSONL)
def renderings_get_retry_jsonl(
    request: PrincipalRequest, query: Query[schemas.LogQuery]
) -> HttpResponseBase:
    """Get the last 30 days of attempts, feedback, questions, and answers as JSON lines.

    `after` is as for retry.log.
    """
    return send_log(project_scope(request), query, *JSONL_RENDERERS)


@router.get("/failure-records.yaml", auth=PrincipalAuth("events:read"), openapi_extra=RECORDS)
def renderings_get_failure_records(
    request: PrincipalRequest, query: Query[schemas.TailQuery]
) -> StreamingHttpResponse:
    """Get the failures of the last 30 days, each as a YAML document."""
    return send_records(project_scope(request), query)


@router.get("/state.md", auth=PrincipalAuth("events:read"), openapi_extra=STATE)
def renderings_get_state(request: PrincipalRequest) -> StreamingHttpResponse:
    """List the skipped tasks with reasons and dependents, as Markdown."""
    return stream(documents.render_skips(project_scope(request)), MARKDOWN)


# ---- one plan


@router.get(
    "/plans/{id}/retry-state.json", auth=PrincipalAuth("events:read"), response=schemas.RetryState
)
def plans_get_retry_state(request: PrincipalRequest, id: str) -> StreamingHttpResponse:
    """Get the current retry state of a plan, by id or ref, as retry-state.json."""
    return stream(documents.render_state(plan_scope(request, id)), JSON)


@router.get("/plans/{id}/retry.log", auth=PrincipalAuth("events:read"), openapi_extra=LOG)
def plans_get_retry_log(
    request: PrincipalRequest, id: str, query: Query[schemas.LogQuery]
) -> HttpResponseBase:
    """Get the last 7 days of a plan, by id or ref, as lines of text.

    `after` is as for the project's retry.log.
    """
    return send_log(plan_scope(request, id), query, *LOG_RENDERERS)


@router.get("/plans/{id}/retry.jsonl", auth=PrincipalAuth("events:read"), openapi_extra=JSONL)
def plans_get_retry_jsonl(
    request: PrincipalRequest, id: str, query: Query[schemas.LogQuery]
) -> HttpResponseBase:
    """Get the last 30 days of a plan, by id or ref, as JSON lines.

    `after` is as for the project's retry.log.
    """
    return send_log(plan_scope(request, id), query, *JSONL_RENDERERS)


@router.get(
    "/plans/{id}/failure-records.yaml", auth=PrincipalAuth("events:read"), openapi_extra=RECORDS
)
def plans_get_failure_records(
    request: PrincipalRequest, id: str, query: Query[schemas.TailQuery]
) -> StreamingHttpResponse:
    """Get the failures of a plan, by id or ref, of the last 30 days, each as a YAML document."""
    return send_records(plan_scope(request, id), query)


@router.get("/plans/{id}/state.md", auth=PrincipalAuth("events:read"), openapi_extra=STATE)
def plans_get_state(request: PrincipalRequest, id: str) -> StreamingHttpResponse:
    """List the skipped tasks of a plan, by id or ref, with reasons, as Markdown."""
    return stream(documents.render_skips(plan_scope(request, id)), MARKDOWN)


@router.get(
    "/plans/{id}/summary",
    auth=PrincipalAuth("tasks:read"),
    response=schemas.PlanSummary,
    openapi_extra=text_content(MARKDOWN, schemas.SUMMARY),
)
def plans_get_summary(request: PrincipalRequest, id: str) -> HttpResponse:
    """Get a summary of a plan's tasks and retries, by id or ref.

    It is available at any time. The response is JSON, or Markdown with `Accept: text/markdown`.
    """
    summary = state_queries.build_summary(find_plan(request.auth, id))
    if prefers_markdown(request):
        return HttpResponse(
            plan_summary.render_markdown(summary), content_type=f"{MARKDOWN}; charset=utf-8"
        )
    return json_response(plan_summary.serialize_summary(summary))


def prefers_markdown(request: PrincipalRequest) -> bool:
    return request.get_preferred_type([JSON, MARKDOWN, TEXT]) in (MARKDOWN, TEXT)
