"""Dead letters over HTTP: list, replay, dismiss and assign them, and comment on them."""

from typing import Any
from uuid import UUID

from django.db.models import F
from django.http import HttpResponse
from ninja import Body, Query, Router

from ledger.access.reasons import require_reason
from ledger.api.auth import PrincipalAuth, PrincipalRequest, stamp_of
from ledger.api.parameters import find_agent_id
from ledger.api.reading import find_visible, list_response
from ledger.api.responses import json_response, respond_once
from ledger.errors import Invalid, InvalidTransition
from ledger.models import DeadLetter
from ledger.models.dead_letter import DeadLetterQuerySet
from ledger.schemas.shared import MOST_ROWS, page_of
from ledger.tasks import Change
from ledger.tokens import record_bulk_use
from retries import deadletters
from retries.api.escalations import PersonAuth
from retries.assignment.rows import TASK, assign, comment
from retries.schemas import deadletters as schemas
from retries.schemas.deadletters import DeadLetterOut
from retries.schemas.escalations import AssignIn, CommentIn

router = Router(tags=["dead letters"])

PLAN_ABORTED = (
    "The plan of this task is aborted. Restart the plan to run its unfinished tasks again."
)


@router.get("/dead-letters", auth=PrincipalAuth("tasks:read"), response=page_of(DeadLetterOut))
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
    if query.assignee:
        rows = rows.filter(task__assignee__username=query.assignee, task__assignee__isnull=False)
    return list_response(rows, query, DeadLetterOut)


def visible_letters(request: PrincipalRequest) -> DeadLetterQuerySet:
    rows = DeadLetter.objects.visible_to(request.auth).select_related("agent")
    return rows.annotate(assignee_name=F("task__assignee__username"))


def find_letter(request: PrincipalRequest, id: UUID) -> DeadLetter:
    return find_visible(visible_letters(request), "dead letter", id)


@router.post(
    "/dead-letters/{id}/replay",
    auth=PrincipalAuth("deadletters:write"),
    response=DeadLetterOut,
    openapi_extra={"x-idempotent": True},
)
def dead_letters_replay(
    request: PrincipalRequest, id: UUID, body: Body[schemas.ReplayIn | None] = None
) -> HttpResponse:
    """Replay a dead letter: enqueue a new task that takes the failed one's place."""
    find_letter(request, id)

    def replay() -> tuple[int, object]:
        closed = deadletters.replay(
            [id],
            among=DeadLetter.objects.visible_to(request.auth),
            asked=Change(payload=body.payload) if body else None,
            stamp=stamp_of(request),
        )
        return 200, closed_body(closed, request, id)

    return respond_once(request, replay)


@router.post(
    "/dead-letters/{id}/dismiss",
    auth=PrincipalAuth("deadletters:write"),
    response=DeadLetterOut,
    openapi_extra={"x-idempotent": True},
)
def dead_letters_dismiss(
    request: PrincipalRequest, id: UUID, body: Body[schemas.DismissIn | None] = None
) -> HttpResponse:
    """Dismiss a dead letter: close it without another attempt."""
    find_letter(request, id)
    options = body or schemas.DismissIn.model_validate({})
    require_reason("dead_letter.dismiss", [request.auth.project_id], options.note)

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
    if closed:
        return DeadLetterOut.write(find_letter(request, id))
    letter = find_letter(request, id)
    if letter.closed_as is None:
        raise InvalidTransition(PLAN_ABORTED, current="open", allowed=["dismissed"])
    raise InvalidTransition(
        f"The dead letter is already {letter.closed_as}.", current=letter.closed_as, allowed=[]
    )


@router.post(
    "/dead-letters/bulk",
    auth=PrincipalAuth("deadletters:write"),
    response=schemas.BulkOut,
    openapi_extra={"x-idempotent": True},
)
def dead_letters_close_many(request: PrincipalRequest, body: schemas.BulkIn) -> HttpResponse:
    """Replay or dismiss several dead letters, at most 100 per call.

    Give their ids, a filter by agent or type, or `all: true`. Of more that match, the oldest are
    closed, and `left` says how many another call can close.
    """
    check_selection(body)

    def close() -> tuple[int, object]:
        rows = select_letters(request, body)
        able = rows.replayable() if body.action == "replay" else rows.open()
        matched = able.count()
        ids = list(able.order_by("id").values_list("pk", flat=True)[:MOST_ROWS])
        closed = [] if body.dry_run else close_letters(ids, request, body)
        if closed:
            verb = "replayed" if body.action == "replay" else "dismissed"
            record_bulk_use(request.auth, verb, len(closed), stamp=stamp_of(request))
        done = set(ids) if body.dry_run else {letter.pk for letter in closed}
        return 200, {
            "matched": matched,
            "changed": len(closed),
            "left": matched - len(ids),
            "ids": [letter.pk for letter in closed],
            "not_done": explain_rest(rows, able, done, body),
        }

    return respond_once(request, close)


def check_selection(body: schemas.BulkIn) -> None:
    has_filter = bool(body.agent or body.type)
    if body.all_ and (body.ids is not None or has_filter):
        raise Invalid("/all", "'all' can't be combined with ids, agent, or type.")
    if not body.all_ and body.ids is None and not has_filter:
        raise Invalid(
            "/ids", "Send ids, a filter (agent or type), or 'all': true for every open dead letter."
        )


def select_letters(request: PrincipalRequest, body: schemas.BulkIn) -> DeadLetterQuerySet:
    # Without ids, the request means the open ones.
    rows = visible_letters(request)
    rows = rows.open() if body.ids is None else rows.filter(pk__in=body.ids)
    if body.agent:
        rows = rows.filter(agent=find_agent_id(request.auth, body.agent))
    return rows.filter(type=body.type) if body.type else rows


def explain_rest(
    rows: DeadLetterQuerySet, able: DeadLetterQuerySet, done: set[UUID], body: schemas.BulkIn
) -> list[dict[str, Any]]:
    # Without ids, explain the oldest matches that the action is not `able` to close.
    is_filter = body.ids is None
    left = rows.exclude(pk__in=able.values("pk")) if is_filter else rows.exclude(pk__in=done)
    found = {letter.pk: letter for letter in left.order_by("id")[:MOST_ROWS]}
    rest = list(found) if body.ids is None else [id for id in body.ids if id not in done]
    return [{"id": id, "reason": reason_left(found.get(id))} for id in dict.fromkeys(rest)]


def reason_left(letter: DeadLetter | None) -> str:
    if letter is None:
        return "No dead letter with this id is visible to this token and matches the filter."
    if letter.closed_as:
        return f"It is already {letter.closed_as}."
    return PLAN_ABORTED


def close_letters(
    ids: list[UUID], request: PrincipalRequest, body: schemas.BulkIn
) -> list[DeadLetter]:
    among, stamp = DeadLetter.objects.visible_to(request.auth), stamp_of(request)
    if body.action == "replay":
        return deadletters.replay(ids, among=among, stamp=stamp)
    require_reason("dead_letter.dismiss", [request.auth.project_id], body.note)
    return deadletters.dismiss(
        ids, among=among, dependents=body.dependents, note=body.note, stamp=stamp
    )


@router.post(
    "/dead-letters/{id}/assign", auth=PersonAuth("escalations:resolve"), response=DeadLetterOut
)
def dead_letters_assign(request: PrincipalRequest, id: UUID, body: AssignIn) -> HttpResponse:
    """Assign a dead letter and its task to a user, or to no one."""
    letter = find_letter(request, id)
    assign(TASK, [letter.task_id], body.user, stamp=stamp_of(request))
    return json_response(DeadLetterOut.write(find_letter(request, id)))


@router.post(
    "/dead-letters/{id}/comment",
    auth=PersonAuth("escalations:resolve"),
    response=DeadLetterOut,
    openapi_extra={"x-idempotent": True},
)
def dead_letters_comment(request: PrincipalRequest, id: UUID, body: CommentIn) -> HttpResponse:
    """Add a comment to the events of a dead letter's task.

    A person whom it mentions, as `@name`, is notified.
    """
    letter = find_letter(request, id)

    def add() -> tuple[int, object]:
        comment(TASK, letter.task_id, body.text, stamp=stamp_of(request))
        return 200, DeadLetterOut.write(letter)

    return respond_once(request, add)


# After /dead-letters/bulk, which this address would match too.
@router.get("/dead-letters/{id}", auth=PrincipalAuth("tasks:read"), response=DeadLetterOut)
def dead_letters_get(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Get a dead letter."""
    return json_response(DeadLetterOut.write(find_letter(request, id)))
