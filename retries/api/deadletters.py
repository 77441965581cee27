"""Dead letters over HTTP: what failed for good, replayed or dismissed by a person."""

from uuid import UUID

from django.http import HttpResponse
from ninja import Body, Query, Router

from ledger.api import cursors
from ledger.api.auth import PrincipalAuth, PrincipalRequest, actor
from ledger.api.responses import answer, idempotent, listed
from ledger.errors import InvalidTransition, NotFound
from ledger.models import DeadLetter
from ledger.models.task import DeadLetterQuerySet
from retries import deadletters
from retries.schemas import escalations
from retries.schemas.escalations import dead_letter_out

router = Router(tags=["dead letters"])


def visible(request: PrincipalRequest) -> DeadLetterQuerySet:
    return DeadLetter.objects.visible_to(request.auth).select_related("agent")


@router.get("/dead-letters", auth=PrincipalAuth("tasks:read"), response=escalations.DeadLetterList)
def dead_letters_list(
    request: PrincipalRequest, asked: Query[escalations.DeadLetterQuery]
) -> HttpResponse:
    """List dead letters, newest first."""
    query = visible(request)
    if asked.state:
        query = query.open() if asked.state == "open" else query.filter(closed_as=asked.state)
    if asked.agent:
        query = query.filter(agent__name=asked.agent)
    if asked.type:
        query = query.filter(type=asked.type)
    filters = asked.model_dump(exclude={"limit", "cursor"})
    page = cursors.cut(query, limit=asked.limit, cursor=asked.cursor, filters=filters)
    return answer(listed(page, map(dead_letter_out, page.rows)))


def one(request: PrincipalRequest, id: UUID) -> DeadLetter:
    letter = visible(request).filter(pk=id).first()
    if letter is None:
        raise NotFound(f"There is no dead letter {id} that this token may see.")
    return letter


@router.post(
    "/dead-letters/{id}/replay",
    auth=PrincipalAuth("deadletters:write"),
    response=escalations.DeadLetterOut,
    openapi_extra={"x-idempotent": True},
)
def dead_letters_replay(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Enqueue what failed anew, in the old task's place."""
    one(request, id)

    def work() -> tuple[int, object]:
        done = deadletters.replay(
            [id],
            among=DeadLetter.objects.visible_to(request.auth),
            actor=actor(request.auth),
            request_id=request.id,
        )
        return 200, dead_letter_out(closed(done, request, id))

    return idempotent(request, work)


@router.post(
    "/dead-letters/{id}/dismiss",
    auth=PrincipalAuth("deadletters:write"),
    response=escalations.DeadLetterOut,
    openapi_extra={"x-idempotent": True},
)
def dead_letters_dismiss(
    request: PrincipalRequest, id: UUID, body: Body[escalations.DismissIn | None] = None
) -> HttpResponse:
    """Close it without trying again."""
    one(request, id)
    said = body or escalations.DismissIn.model_validate({})

    def work() -> tuple[int, object]:
        done = deadletters.dismiss(
            [id],
            among=DeadLetter.objects.visible_to(request.auth),
            dependents=said.dependents,
            note=said.note,
            actor=actor(request.auth),
            request_id=request.id,
        )
        return 200, dead_letter_out(closed(done, request, id))

    return idempotent(request, work)


@router.post(
    "/dead-letters/bulk",
    auth=PrincipalAuth("deadletters:write"),
    response=escalations.BulkOut,
    openapi_extra={"x-idempotent": True},
)
def dead_letters_bulk(request: PrincipalRequest, body: escalations.BulkIn) -> HttpResponse:
    """Replay or dismiss the named ones, or everything open that matches, all at once."""

    def work() -> tuple[int, object]:
        found = visible(request)
        query = found.replayable() if body.action == "replay" else found.open()
        if body.ids is not None:
            query = query.filter(pk__in=body.ids)
        if body.agent:
            query = query.filter(agent__name=body.agent)
        if body.type:
            query = query.filter(type=body.type)
        ids = list(query.order_by("id").values_list("pk", flat=True))
        done = [] if body.dry_run else settled(ids, request, body)
        return 200, {
            "matched": len(ids),
            "changed": len(done),
            "ids": [letter.pk for letter in done],
        }

    return idempotent(request, work)


def settled(
    ids: list[UUID], request: PrincipalRequest, body: escalations.BulkIn
) -> list[DeadLetter]:
    among, who = DeadLetter.objects.visible_to(request.auth), actor(request.auth)
    if body.action == "replay":
        return deadletters.replay(ids, among=among, actor=who, request_id=request.id)
    return deadletters.dismiss(
        ids,
        among=among,
        dependents=body.dependents,
        note=body.note,
        actor=who,
        request_id=request.id,
    )


def closed(done: list[DeadLetter], request: PrincipalRequest, id: UUID) -> DeadLetter:
    if done:
        return done[0]
    letter = one(request, id)
    if letter.closed_as is None:
        raise InvalidTransition(
            "Its plan is aborted. Restart the plan: that runs what is not done of it anew.",
            current="open",
            allowed=["dismissed"],
        )
    raise InvalidTransition(
        f"The dead letter was {letter.closed_as} already.", current=letter.closed_as, allowed=[]
    )
