"""Escalations over HTTP: everybody concerned reads, people answer."""

from typing import Any
from uuid import UUID

from django.http import HttpResponse
from ninja import Query, Router

from ledger.api import cursors
from ledger.api.auth import PrincipalAuth, PrincipalRequest, actor
from ledger.api.responses import answer, idempotent, linked, listed
from ledger.api.tasks import version_asked
from ledger.errors import Invalid, NotFound
from ledger.principal import Principal
from retries.attempts import questions
from retries.escalations import answering, assignment, choices, lifecycle
from retries.escalations.answering import HumanRequired
from retries.escalations.choices import Choice
from retries.models import Escalation, EscalationQuerySet
from retries.schemas import escalations as schemas_escalations
from retries.schemas.escalations import escalation_out, escalations_out
from retries.states import Answer

router = Router(tags=["escalations"])


class Person(PrincipalAuth):
    """A token that may speak for a person; an agent's or a producer's never can."""

    missing = HumanRequired


def visible(principal: Principal) -> EscalationQuerySet:
    rows = Escalation.objects.visible_to(principal)
    return rows.select_related("agent", "assignee", "instruction", "task__plan")


@router.get(
    "/escalations",
    auth=PrincipalAuth("escalations:read"),
    response=schemas_escalations.EscalationList,
)
def escalations_list(
    request: PrincipalRequest, asked: Query[schemas_escalations.EscalationQuery]
) -> HttpResponse:
    """List escalations, newest first."""
    query = visible(request.auth)
    filters = asked.model_dump(exclude={"limit", "cursor"})
    columns = {"plan": "task__plan", "assignee": "assignee__username"}
    query = query.filter(
        **{columns.get(name, name): value for name, value in filters.items() if value}
    )
    page = cursors.cut(query, limit=asked.limit, cursor=asked.cursor, filters=filters)
    return answer(listed(page, (linked(request, each) for each in escalations_out(page.rows))))


@router.get(
    "/escalations/{id}",
    auth=PrincipalAuth("escalations:read"),
    response=schemas_escalations.EscalationOut,
)
def escalations_get(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Read one escalation, with what can be answered."""
    escalation = one(request, id)
    response = answer(linked(request, escalation_out(escalation)))
    response["ETag"] = f'"v{escalation.version}"'
    return response


def one(request: PrincipalRequest, id: UUID) -> Escalation:
    escalation = visible(request.auth).filter(pk=id).first()
    if escalation is None:
        raise NotFound(f"There is no escalation {id} that this token may see.")
    return escalation


@router.post(
    "/escalations/{id}/resolve",
    auth=Person("escalations:resolve"),
    response=schemas_escalations.ResolveOut,
    openapi_extra={"x-idempotent": True},
)
def escalations_resolve(
    request: PrincipalRequest, id: UUID, body: schemas_escalations.ResolveIn
) -> HttpResponse:
    """Answer an escalation, once and for good.

    As fields, or as one line of text: `retry`, `skip`, `abort` or `fix: <instruction>`. With the
    version that was read, here or in `If-Match`, what has changed since is not answered.
    """
    version = version_read(request, body)

    def work() -> tuple[int, Any]:
        escalation = answering.answer(
            id,
            choice(body),
            among=Escalation.objects.visible_to(request.auth),
            actor=actor(request.auth),
            channel="api",
            version=version,
            request_id=request.id,
        )
        return 200, {
            "escalation": linked(request, escalation_out(escalation)),
            "task": task_of(escalation),
            "decision": lifecycle.resolution(escalation),
        }

    return idempotent(request, work)


def version_read(request: PrincipalRequest, body: schemas_escalations.ResolveIn) -> int | None:
    if request.headers.get("If-Match"):
        return version_asked(request)
    return body.version


def task_of(escalation: Escalation) -> dict[str, Any] | None:
    """Where the task stands after the answer."""
    task = escalation.task
    if task is None:
        return None
    task.refresh_from_db(fields=["state", "version"])
    return {"id": task.pk, "state": task.state, "version": task.version}


def choice(body: schemas_escalations.ResolveIn) -> Choice:
    """The answer in either form; the line of text has the one parser."""
    if body.action and not body.text:
        return Choice(
            Answer(body.action),
            fix=body.instruction,
            note=body.note,
            dependents=body.dependents,
            response=body.response,
        )
    if body.text and body.instruction:
        raise Invalid("/instruction", "A line of text has its words in it: leave the instruction.")
    if body.text and body.response:
        raise Invalid("/response", "A line of text has no values: say 'action' and 'response'.")
    if body.text and not body.action:
        said = choices.parse(body.text)
        return Choice(said.action, fix=said.fix, note=body.note, dependents=body.dependents)
    raise Invalid("/action", "Give either an action or a line of text: retry, fix, skip or abort.")


@router.post(
    "/escalations/{id}/withdraw",
    auth=PrincipalAuth("tasks:work"),
    response=schemas_escalations.EscalationOut,
)
def escalations_withdraw(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Take a question back, which its agent has answered itself: the task is queued again."""
    who = request.auth
    by_person = "escalations:resolve" in who.scopes
    if not by_person and not who.is_agent:
        raise HumanRequired("Only the agent that asked, or a person, takes a question back.")
    questions.withdraw(
        id,
        among=Escalation.objects.visible_to(who),
        actor=actor(who),
        by_person=by_person,
        request_id=request.id,
    )
    return answer(linked(request, escalation_out(one(request, id))))


@router.post(
    "/escalations/{id}/assign",
    auth=Person("escalations:resolve"),
    response=schemas_escalations.EscalationOut,
)
def escalations_assign(
    request: PrincipalRequest, id: UUID, body: schemas_escalations.AssignIn
) -> HttpResponse:
    """Say who takes care of it."""
    assignment.assign(
        id,
        body.user,
        among=Escalation.objects.visible_to(request.auth),
        actor=actor(request.auth),
        request_id=request.id,
    )
    return answer(linked(request, escalation_out(one(request, id))))


@router.post(
    "/escalations/{id}/comment",
    auth=Person("escalations:resolve"),
    response=schemas_escalations.EscalationOut,
    openapi_extra={"x-idempotent": True},
)
def escalations_comment(
    request: PrincipalRequest, id: UUID, body: schemas_escalations.CommentIn
) -> HttpResponse:
    """Keep a remark for whoever else looks at it."""

    def work() -> tuple[int, Any]:
        assignment.comment(
            id,
            body.text,
            among=Escalation.objects.visible_to(request.auth),
            actor=actor(request.auth),
            request_id=request.id,
        )
        return 200, linked(request, escalation_out(one(request, id)))

    return idempotent(request, work)
