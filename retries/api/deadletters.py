"""Dead letters over HTTP: list them, replay them, dismiss them."""

from typing import Any
from uuid import UUID

from django.http import HttpResponse
from ninja import Body, Query, Router

from ledger.api.auth import PrincipalAuth, PrincipalRequest, not_visible, stamp_of
from ledger.api.cursors import read_page
from ledger.api.parameters import find_agent_id
from ledger.api.responses import json_response, page_body, respond_once
from ledger.errors import InvalidTransition
from ledger.models import DeadLetter
from ledger.models.task import DeadLetterQuerySet
from retries import deadletters
from retries.schemas import deadletters as schemas
from retries.schemas.deadletters import dead_letter_out

router = Router(tags=["dead letters"])


@router.get("/dead-letters", auth=PrincipalAuth("tasks:read"), response=schemas.DeadLetterList)
def dead_letters_list(
    request: PrincipalRequest, query: Query[schemas.DeadLetterQuery]
) -> HttpResponse:
    """List dead letters, newest first."""
    rows = visible_letters(request)
    if query.state:
        rows = rows.open() if query.state == "open" else rows.filter(closed_as=query.state)
    if query.agent:
        rows = rows.filter(agent=find_agent_id(request.auth, query.agent))
    if query.type:
        rows = rows.filter(type=query.type)
    filters = query.model_dump(exclude={"limit", "cursor"})
    page = read_page(rows, limit=query.limit, cursor=query.cursor, filters=filters)
    return json_response(page_body(page, map(dead_letter_out, page.rows)))


def visible_letters(request: PrincipalRequest) -> DeadLetterQuerySet:
    return DeadLetter.objects.visible_to(request.auth).select_related("agent")


def find_letter(request: PrincipalRequest, id: UUID) -> DeadLetter:
    """Return a dead letter that the caller may see; raise NotFound."""
    letter = visible_letters(request).filter(pk=id).first()
    if letter is None:
        raise not_visible("dead letter", id)
    return letter


@router.post(
    "/dead-letters/{id}/replay",
    auth=PrincipalAuth("deadletters:write"),
    response=schemas.DeadLetterOut,
    openapi_extra={"x-idempotent": True},
)
def dead_letters_replay(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Replay a dead letter: enqueue a new task that takes the failed one's place."""
    find_letter(request, id)

    def replay() -> tuple[int, object]:
        closed = deadletters.replay(
            [id], among=DeadLetter.objects.visible_to(request.auth), stamp=stamp_of(request)
        )
        return 200, closed_body(closed, request, id)

    return respond_once(request, replay)


@router.post(
    "/dead-letters/{id}/dismiss",
    auth=PrincipalAuth("deadletters:write"),
    response=schemas.DeadLetterOut,
    openapi_extra={"x-idempotent": True},
)
def dead_letters_dismiss(
    request: PrincipalRequest, id: UUID, body: Body[schemas.DismissIn | None] = None
) -> HttpResponse:
    """Dismiss a dead letter: close it without another attempt."""
    find_letter(request, id)
    options = body or schemas.DismissIn.model_validate({})

    def dismiss() -> tuple[int, object]:
        closed = deadletters.dismiss(
            [id],
            among=DeadLetter.objects.visible_to(request.auth),
            dependents=options.dependents,
            note=options.note,
            stamp=stamp_of(request),
        )
        return 200, closed_body(closed, request, id)

    return respond_once(request, dismiss)


def closed_body(closed: list[DeadLetter], request: PrincipalRequest, id: UUID) -> dict[str, Any]:
    """Return the dead letter that was closed; raise InvalidTransition if none was."""
    if closed:
        return dead_letter_out(closed[0])
    letter = find_letter(request, id)
    if letter.closed_as is None:
        raise InvalidTransition(
            "The plan of this task is aborted. Restart the plan to run its unfinished tasks again.",
            current="open",
            allowed=["dismissed"],
        )
    raise InvalidTransition(
        f"The dead letter is already {letter.closed_as}.", current=letter.closed_as, allowed=[]
    )


@router.post(
    "/dead-letters/bulk",
    auth=PrincipalAuth("deadletters:write"),
    response=schemas.BulkOut,
    openapi_extra={"x-idempotent": True},
)
def dead_letters_bulk(request: PrincipalRequest, body: schemas.BulkIn) -> HttpResponse:
    """Replay or dismiss the dead letters with these ids, or all open ones that match."""

    def close() -> tuple[int, object]:
        visible = visible_letters(request)
        rows = visible.replayable() if body.action == "replay" else visible.open()
        if body.ids is not None:
            rows = rows.filter(pk__in=body.ids)
        if body.agent:
            rows = rows.filter(agent=find_agent_id(request.auth, body.agent))
        if body.type:
            rows = rows.filter(type=body.type)
        ids = list(rows.order_by("id").values_list("pk", flat=True))
        closed = [] if body.dry_run else close_letters(ids, request, body)
        return 200, {
            "matched": len(ids),
            "changed": len(closed),
            "ids": [letter.pk for letter in closed],
        }

    return respond_once(request, close)


def close_letters(
    ids: list[UUID], request: PrincipalRequest, body: schemas.BulkIn
) -> list[DeadLetter]:
    among, stamp = DeadLetter.objects.visible_to(request.auth), stamp_of(request)
    if body.action == "replay":
        return deadletters.replay(ids, among=among, stamp=stamp)
    return deadletters.dismiss(
        ids, among=among, dependents=body.dependents, note=body.note, stamp=stamp
    )
