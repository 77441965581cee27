"""Failure patterns over HTTP: everyone but agents reads, people act on them."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from django.http import HttpResponse
from ninja import Body, Query, Router

from ledger.api.auth import PrincipalAuth, PrincipalRequest, stamp_of
from ledger.api.parameters import parse_states
from ledger.api.reading import find_visible, list_response
from ledger.api.responses import json_response, respond_once
from ledger.errors import InvalidTransition
from ledger.schemas.shared import PageQuery, page_of
from ledger.states import Who
from ledger.tokens import record_bulk_use
from retries.api.escalations import PersonAuth
from retries.api.inputs.diagnosis_filters import filter_patterns
from retries.assignment.rows import PATTERN, assign, comment
from retries.failures import figures, patterns
from retries.failures.stuck_tasks import count_stuck_tasks
from retries.insight.prediction_reads import find_attempt_predictions
from retries.models import FailurePattern, Grouped
from retries.schemas import patterns as schemas
from retries.schemas.escalations import AssignIn, CommentIn
from retries.schemas.patterns import grouped_out, newest_out, patterns_out
from retries.states import PatternState, allowed_pattern_moves

router = Router(tags=["patterns"])

CHANNEL = "api"


@router.get("/patterns", auth=PrincipalAuth("events:read"), response=page_of(schemas.PatternOut))
def patterns_list(request: PrincipalRequest, query: Query[schemas.PatternQuery]) -> HttpResponse:
    """List failure patterns, the newest first."""
    rows = FailurePattern.objects.visible_to(request.auth).current().select_related("assignee")
    if query.assignee:
        rows = rows.filter(assignee__username=query.assignee)
    if query.state:
        rows = rows.filter(state__in=parse_states(query.state, PatternState))
    for word in query.q.split():
        rows = rows.filter(template__icontains=word)
    return list_response(filter_patterns(rows, query), query, patterns_out)


@router.get("/patterns/{id}", auth=PrincipalAuth("events:read"), response=schemas.OnePatternOut)
def patterns_get(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Get a failure pattern, with the number of tasks that are stuck because of it."""
    return pattern_response(request, id)


@router.get(
    "/patterns/{id}/failures",
    auth=PrincipalAuth("events:read"),
    response=page_of(schemas.PatternFailureOut),
)
def patterns_list_failures(
    request: PrincipalRequest, id: UUID, query: Query[PageQuery]
) -> HttpResponse:
    """List a pattern's failures, newest first."""
    rows = find_pattern(request, id).grouped.select_related("failure", "agent")
    return list_response(rows, query, write_failures, pattern=id)


def write_failures(rows: list[Grouped]) -> Iterator[dict[str, Any]]:
    chances = find_attempt_predictions(row.failure.attempt_id for row in rows)
    return (grouped_out(row, chances.get(row.failure.attempt_id)) for row in rows)


def find_pattern(request: PrincipalRequest, id: UUID) -> FailurePattern:
    # The id of a merged pattern finds the pattern that it was merged into.
    rows = FailurePattern.objects.visible_to(request.auth).select_related(
        "assignee", "merged_into__assignee"
    )
    pattern = find_visible(rows, "pattern", id)
    return pattern.merged_into or pattern


def pattern_response(request: PrincipalRequest, id: UUID) -> HttpResponse:
    return json_response(pattern_body(request, id))


def pattern_body(request: PrincipalRequest, id: UUID) -> dict[str, Any]:
    pattern = find_pattern(request, id)
    stuck = {"stuck": schemas.StuckOut.write(count_stuck_tasks(pattern.pk))}
    merged = {"merged_templates": figures.list_merged_templates(pattern)}
    first = schemas.first_seen_out(pattern)
    return patterns_out([pattern])[0] | first | stuck | merged | newest_out(pattern)


# ---- what people do


@router.post(
    "/patterns/{id}/assign", auth=PersonAuth("escalations:resolve"), response=schemas.OnePatternOut
)
def patterns_assign(request: PrincipalRequest, id: UUID, body: AssignIn) -> HttpResponse:
    """Assign a pattern to a user, or to no one."""
    assign(PATTERN, [find_pattern(request, id).pk], body.user, stamp=stamp_of(request))
    return pattern_response(request, id)


@router.post(
    "/patterns/{id}/comment",
    auth=PersonAuth("escalations:resolve"),
    response=schemas.OnePatternOut,
    openapi_extra={"x-idempotent": True},
)
def patterns_comment(request: PrincipalRequest, id: UUID, body: CommentIn) -> HttpResponse:
    """Add a comment to a pattern's events; a person whom it mentions, as `@name`, is notified."""
    pattern = find_pattern(request, id)

    def add() -> tuple[int, Any]:
        comment(PATTERN, pattern.pk, body.text, stamp=stamp_of(request))
        return 200, pattern_body(request, pattern.pk)

    return respond_once(request, add)


@router.post(
    "/patterns/{id}/ignore", auth=PersonAuth("escalations:resolve"), response=schemas.OnePatternOut
)
def patterns_ignore(
    request: PrincipalRequest, id: UUID, body: Body[schemas.IgnoreIn | None] = None
) -> HttpResponse:
    """Ignore a pattern, permanently or until a time."""
    pattern, options = find_pattern(request, id), body or schemas.IgnoreIn.model_validate({})
    moved = patterns.ignore(
        [pattern.pk], until=options.until, note=options.note, stamp=stamp_of(request)
    )
    return moved_response(request, pattern, moved, PatternState.IGNORED)


@router.post(
    "/patterns/{id}/resolve", auth=PersonAuth("escalations:resolve"), response=schemas.OnePatternOut
)
def patterns_resolve(
    request: PrincipalRequest, id: UUID, body: Body[schemas.ResolvePatternIn | None] = None
) -> HttpResponse:
    """Mark a pattern's cause as fixed; its next failure is a regression."""
    pattern = find_pattern(request, id)
    moved = patterns.resolve([pattern.pk], note=body.note if body else "", stamp=stamp_of(request))
    return moved_response(request, pattern, moved, PatternState.RESOLVED)


@router.post(
    "/patterns/{id}/reopen", auth=PersonAuth("escalations:resolve"), response=schemas.OnePatternOut
)
def patterns_reopen(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Reopen a pattern that is ignored or resolved."""
    pattern = find_pattern(request, id)
    moved = patterns.reopen([pattern.pk], stamp=stamp_of(request))
    return moved_response(request, pattern, moved, PatternState.OPEN)


def moved_response(
    request: PrincipalRequest, pattern: FailurePattern, moved: list[UUID], to: PatternState
) -> HttpResponse:
    if not moved:
        pattern.refresh_from_db()
        raise InvalidTransition(
            f"The pattern is {pattern.state}; it can't become {to}.",
            current=pattern.state,
            allowed=allowed_pattern_moves(pattern.state, Who.PERSON),
        )
    return pattern_response(request, pattern.pk)


@router.post(
    "/patterns/{id}/retry",
    auth=PersonAuth("escalations:resolve"),
    response=schemas.RetryPatternOut,
    openapi_extra={"x-idempotent": True},
)
def patterns_retry(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Retry the tasks that are stuck because of a pattern, at most 500 at a time.

    Dead letters are replayed as new tasks, pending retries become due, and open questions that
    another attempt can settle are answered with a retry.
    """
    pattern = find_pattern(request, id)

    def retry() -> tuple[int, Any]:
        stamp = stamp_of(request)
        result = patterns.retry([pattern.pk], stamp=stamp, channel=CHANNEL)
        if len(result):
            record_bulk_use(request.auth, "retried", len(result), stamp=stamp)
        return 200, schemas.RetryPatternOut.write(result)

    return respond_once(request, retry)
