"""Escalations over HTTP: everybody concerned reads, people answer."""

from typing import Any
from uuid import UUID

from django.http import HttpResponse
from ninja import Query, Router

from ledger import paging
from ledger.api.answers import answer, idempotent, listed
from ledger.api.auth import Known, KnownRequest, actor
from ledger.principal import Principal
from ledger.refusals import Invalid, NotFound
from retries import escalations, schemas
from retries.escalations import Choice, HumanRequired
from retries.models import Escalation, EscalationQuerySet
from retries.schemas import escalation_out
from retries.states import Answer

router = Router(tags=["escalations"])


class Person(Known):
    """A token that may speak for a person; an agent's or a producer's never can."""

    missing = HumanRequired


def visible(principal: Principal) -> EscalationQuerySet:
    return Escalation.objects.visible_to(principal).select_related("agent", "instruction", "task")


@router.get("/escalations", auth=Known("escalations:read"), response=schemas.EscalationList)
def escalations_list(request: KnownRequest, asked: Query[schemas.EscalationQuery]) -> HttpResponse:
    """List escalations, newest first."""
    query = visible(request.auth)
    filters = {"state": asked.state, "reason": asked.reason}
    query = query.filter(**{name: value for name, value in filters.items() if value})
    page = paging.cut(query, limit=asked.limit, cursor=asked.cursor, filters=filters)
    return answer(listed(page, map(escalation_out, page.rows)))


@router.get("/escalations/{id}", auth=Known("escalations:read"), response=schemas.EscalationOut)
def escalations_get(request: KnownRequest, id: UUID) -> HttpResponse:
    """Read one escalation, with what can be answered."""
    escalation = visible(request.auth).filter(pk=id).first()
    if escalation is None:
        raise NotFound(f"There is no escalation {id} that this token may see.")
    return answer(escalation_out(escalation))


@router.post(
    "/escalations/{id}/resolve",
    auth=Person("escalations:resolve"),
    response=schemas.ResolveOut,
    openapi_extra={"x-idempotent": True},
)
def escalations_resolve(request: KnownRequest, id: UUID, body: schemas.ResolveIn) -> HttpResponse:
    """Answer an escalation, once and for good.

    As fields, or as one line of text: `retry`, `skip`, `abort` or `fix: <instruction>`.
    """

    def work() -> tuple[int, Any]:
        escalation = escalations.answer(
            id,
            choice(body),
            among=Escalation.objects.visible_to(request.auth),
            actor=actor(request.auth),
            channel="api",
            version=body.version,
            request_id=request.id,
        )
        return 200, {
            "escalation": escalation_out(escalation),
            "decision": escalations.resolution(escalation),
        }

    return idempotent(request, work)


def choice(body: schemas.ResolveIn) -> Choice:
    """The answer in either form; the line of text has the one parser."""
    if body.action and not body.text:
        return Choice(Answer(body.action), fix=body.instruction, note=body.note)
    if body.text and not body.action:
        said = escalations.parse(body.text)
        return Choice(said.action, fix=said.fix, note=body.note)
    raise Invalid("/action", "Give either an action or a line of text: retry, fix, skip or abort.")
