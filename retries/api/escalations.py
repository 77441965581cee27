"""Escalations over HTTP: everyone concerned reads, people answer."""

from typing import Any
from uuid import UUID

from django.http import HttpResponse
from ninja import Query, Router

from ledger.api.auth import PrincipalAuth, PrincipalRequest, stamp_of
from ledger.api.parameters import find_agent_id, find_plan_id, parse_if_match
from ledger.api.reading import find_visible, list_response
from ledger.api.responses import complete_url, json_response, respond_once
from ledger.authorization.permissions import may
from ledger.authorization.principal import Principal
from ledger.errors import Invalid
from ledger.schemas.shared import page_of
from retries.api.inputs.diagnosis_filters import filter_escalations
from retries.attempts import questions
from retries.escalations import answering, assignment, choices, lifecycle, snoozing, typed_answers
from retries.escalations.answering import HumanRequired
from retries.escalations.choices import Choice
from retries.models import Escalation, EscalationQuerySet
from retries.schemas import escalations as schemas
from retries.schemas.escalations import escalation_out, escalations_out
from retries.states import Answer

router = Router(tags=["escalations"])


class PersonAuth(PrincipalAuth):
    """Accept only tokens that may act for a person; agents' and producers' never can."""

    refusal = HumanRequired


@router.get(
    "/escalations", auth=PrincipalAuth("escalations:read"), response=page_of(schemas.EscalationOut)
)
def escalations_list(
    request: PrincipalRequest, query: Query[schemas.EscalationQuery]
) -> HttpResponse:
    """List escalations, newest first."""
    conditions: dict[str, Any] = {
        "state": query.state,
        "reason": query.reason,
        "assignee__username": query.assignee,
        "agent": query.agent and find_agent_id(request.auth, query.agent),
        "task__plan": query.plan and find_plan_id(request.auth, query.plan),
    }
    rows = visible_escalations(request.auth).filter(
        **{column: value for column, value in conditions.items() if value}
    )
    return list_response(
        filter_escalations(rows, query),
        query,
        lambda rows: map(complete_url, escalations_out(revealed(request, rows))),
    )


@router.get(
    "/escalations/{id}", auth=PrincipalAuth("escalations:read"), response=schemas.EscalationOut
)
def escalations_get(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Get an escalation with its possible answers."""
    return escalation_response(request, find_escalation(request, id))


def visible_escalations(principal: Principal) -> EscalationQuerySet:
    rows = Escalation.objects.visible_to(principal)
    return rows.select_related(
        "agent", "assignee", "instruction", "permission", "policy", "task__plan"
    )


def find_escalation(request: PrincipalRequest, id: UUID) -> Escalation:
    """Return an escalation that the caller may see; raise NotFound otherwise."""
    return find_visible(visible_escalations(request.auth), "escalation", id)


def revealed(request: PrincipalRequest, rows: list[Escalation]) -> list[Escalation]:
    # An agent sees only its own escalations, so it may read the answers as people typed them.
    return [typed_answers.reveal(each) for each in rows] if request.auth.is_agent else rows


def escalation_body(request: PrincipalRequest, escalation: Escalation) -> dict[str, Any]:
    return complete_url(escalation_out(*revealed(request, [escalation])))


def escalation_response(request: PrincipalRequest, escalation: Escalation) -> HttpResponse:
    return json_response(escalation_body(request, escalation), version=escalation.version)


@router.post(
    "/escalations/{id}/resolve",
    auth=PersonAuth("escalations:resolve"),
    response=schemas.ResolveOut,
    openapi_extra={"x-idempotent": True},
)
def escalations_resolve(
    request: PrincipalRequest, id: UUID, body: schemas.ResolveIn
) -> HttpResponse:
    """Answer an escalation. An answer is final.

    Send the answer as fields, or as one line of text: `retry`, `skip`, `abort`, or
    `fix: <instruction>`; to a permission request `allow`, or `deny: <what to do instead>`; about a
    budget that is used up `grant: <amount>`, such as `grant: 500000 tokens`. If you
    send the version you read, in the body or in `If-Match`, the call is refused when the
    escalation has changed since.
    """
    has_etag = bool(request.headers.get("If-Match"))
    version = parse_if_match(request) if has_etag else body.version

    def resolve() -> tuple[int, Any]:
        choice = choice_of(body)
        escalation = answering.answer(
            id,
            choice,
            among=Escalation.objects.visible_to(request.auth),
            stamp=stamp_of(request),
            channel="api",
            version=version,
        )
        return 200, {
            "escalation": escalation_body(request, escalation),
            "task": reload_task(escalation),
            "decision": lifecycle.resolution(escalation),
            "warnings": typed_answers.list_warnings(choice, escalation),
        }

    return respond_once(request, resolve)


def choice_of(body: schemas.ResolveIn) -> Choice:
    # The answer comes in one of two forms; a mixture of both is refused.
    if body.action and not body.text:
        return Choice(
            Answer(body.action),
            fix=body.instruction,
            note=body.note,
            dependents=body.dependents,
            response=body.response,
        )
    if body.text and body.instruction:
        raise Invalid("/instruction", "Send either 'text' or 'instruction', not both.")
    if body.text and body.response:
        raise Invalid("/response", "To send a 'response', set 'action' instead of 'text'.")
    if body.text and not body.action:
        choice = choices.parse(body.text)
        return Choice(choice.action, fix=choice.fix, note=body.note, dependents=body.dependents)
    raise Invalid("/action", "Send either 'action' or 'text': retry, fix, skip, or abort.")


def reload_task(escalation: Escalation) -> dict[str, Any] | None:
    task = escalation.task
    if task is None:
        return None
    task.refresh_from_db(fields=["state", "version"])
    return {"id": task.pk, "state": task.state, "version": task.version}


@router.post(
    "/escalations/{id}/undo", auth=PersonAuth("escalations:resolve"), response=schemas.EscalationOut
)
def escalations_undo(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Undo a retry or a fix that a person sent from the page, before the task is queued again.

    That is possible for as long as `TENFOUR_UNDO_SECONDS` says: the escalation is open again. An
    answer sent through the API takes effect at once and can't be undone.
    """
    answering.undo(id, among=Escalation.objects.visible_to(request.auth), stamp=stamp_of(request))
    return escalation_response(request, find_escalation(request, id))


@router.post(
    "/escalations/{id}/withdraw", auth=PrincipalAuth("tasks:work"), response=schemas.EscalationOut
)
def escalations_withdraw(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Withdraw a question that no longer needs an answer; the task is queued again.

    An agent can withdraw its own questions. After several without an answer, only a person can
    close the next one, whose reason is `questions_exhausted`.
    """
    principal = request.auth
    by_person = may(principal, "escalations:resolve")
    if not by_person and not principal.is_agent:
        raise HumanRequired("Only the agent that asked, or a person, can withdraw a question.")
    questions.withdraw(
        id,
        among=Escalation.objects.visible_to(principal),
        stamp=stamp_of(request),
        by_person=by_person,
    )
    return escalation_response(request, find_escalation(request, id))


@router.post(
    "/escalations/{id}/assign",
    auth=PersonAuth("escalations:resolve"),
    response=schemas.EscalationOut,
)
def escalations_assign(request: PrincipalRequest, id: UUID, body: schemas.AssignIn) -> HttpResponse:
    """Assign an escalation to a user, or to no one."""
    assignment.assign(
        id, body.user, among=Escalation.objects.visible_to(request.auth), stamp=stamp_of(request)
    )
    return escalation_response(request, find_escalation(request, id))


@router.post(
    "/escalations/{id}/snooze",
    auth=PersonAuth("escalations:resolve"),
    response=schemas.EscalationOut,
)
def escalations_snooze(request: PrincipalRequest, id: UUID, body: schemas.SnoozeIn) -> HttpResponse:
    """Take an open escalation out of the inbox until a time, or bring it back with null.

    It stays open: its task keeps waiting, and it can be answered. No reminder is sent before it
    is back.
    """
    snoozing.snooze(
        id, body.until, among=Escalation.objects.visible_to(request.auth), stamp=stamp_of(request)
    )
    return escalation_response(request, find_escalation(request, id))


@router.post(
    "/escalations/{id}/comment",
    auth=PersonAuth("escalations:resolve"),
    response=schemas.EscalationOut,
    openapi_extra={"x-idempotent": True},
)
def escalations_comment(
    request: PrincipalRequest, id: UUID, body: schemas.CommentIn
) -> HttpResponse:
    """Add a comment to an escalation."""

    def comment() -> tuple[int, Any]:
        assignment.comment(
            id,
            body.text,
            among=Escalation.objects.visible_to(request.auth),
            stamp=stamp_of(request),
        )
        return 200, escalation_body(request, find_escalation(request, id))

    return respond_once(request, comment)
