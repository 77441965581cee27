"""Instructions and signals over HTTP: producers send, agents pull, acknowledge, and report."""

from typing import Any
from uuid import UUID

from django.db.models import F
from django.http import HttpResponse
from ninja import Body, Query, Router

from ledger import agents, instructions, signal_matching
from ledger.access.reasons import require_reason
from ledger.api.auth import (
    BearerAuth,
    BearerRequest,
    PrincipalAuth,
    PrincipalRequest,
    not_visible,
    stamp_of,
)
from ledger.api.cursors import read_page
from ledger.api.parameters import filter_by_id, find_agent_id, parse_states
from ledger.api.responses import json_response, page_body, respond_once
from ledger.database import sql
from ledger.instructions import Expect
from ledger.models import Agent, Instruction, Project
from ledger.moves import INSTRUCTION_COLUMNS
from ledger.schemas import instructions as schemas
from ledger.schemas.instructions import InstructionOut
from ledger.schemas.shared import ReasonIn, page_of
from ledger.states import InstructionState

router = Router(tags=["instructions"])

TEXT = "text/plain; charset=utf-8"


@router.post(
    "/instructions",
    auth=PrincipalAuth("instructions:write"),
    response={201: InstructionOut, 200: InstructionOut},
    openapi_extra={"x-idempotent": True},
)
def instructions_create(request: PrincipalRequest, body: schemas.InstructionIn) -> HttpResponse:
    """Send an instruction to an agent.

    Returns 201 if the instruction was queued. Returns 200 with `deduplicated` if an unsettled
    instruction with the same content exists for the agent. An instruction can be delivered more
    than once, so following it twice must be safe.
    """

    def send() -> tuple[int, Any]:
        row = instructions.send(
            find_or_register_agent(request, body),
            body.content,
            tracked=body.tracked,
            max_retries=body.max_retries,
            expect=Expect(body.expect.type, body.expect.match) if body.expect else None,
            priority=body.priority,
            on_failed=body.on_failed,
            task=body.task,
            stamp=stamp_of(request),
        )
        return (200 if row["deduplicated"] else 201), InstructionOut.write(row)

    # A refused instruction must not leave a newly registered agent behind.
    return respond_once(request, sql.atomic(send) if body.register_ else send)


def find_or_register_agent(request: PrincipalRequest, body: schemas.InstructionIn) -> Agent:
    project = Project.objects.get(pk=request.auth.project_id)
    if body.register_:
        return agents.register(body.agent, project=project, stamp=stamp_of(request))
    return agents.get_by_name(body.agent, project=project)


@router.get(
    "/instructions", auth=PrincipalAuth("instructions:read"), response=page_of(InstructionOut)
)
def instructions_list(
    request: PrincipalRequest, query: Query[schemas.InstructionQuery]
) -> HttpResponse:
    """List instructions, newest first."""
    rows = Instruction.objects.visible_to(request.auth)
    if query.state:
        rows = rows.filter(state__in=parse_states(query.state, InstructionState))
    if query.agent:
        rows = rows.filter(agent=find_agent_id(request.auth, query.agent))
    values = filter_by_id(rows, query.id).values(*INSTRUCTION_COLUMNS, agent_name=F("agent__name"))
    filters = {"state": query.state, "agent": query.agent, "id": query.id}
    page = read_page(values, limit=query.limit, cursor=query.cursor, filters=filters)
    return json_response(page_body(page, map(InstructionOut.write, page.rows)))


@router.post("/instructions/pull", auth=BearerAuth("instructions:ack"), response=schemas.PullOut)
def instructions_pull(
    request: BearerRequest, body: Body[schemas.PullIn | None] = None
) -> HttpResponse:
    """Pull the agent's queued instructions, which marks them as delivered.

    What an earlier pull delivered is marked as read.

    With `Accept: text/plain`, the response contains only their texts, separated by blank lines.
    """
    given = body or schemas.PullIn.model_validate({})
    pulled = instructions.deliver(request.auth, limit=given.limit, via=given.via)
    if "text/plain" in request.META.get("HTTP_ACCEPT", ""):
        text = "\n\n".join(InstructionOut.write(row)["text"] for row in pulled.rows)
        return HttpResponse(text + "\n" if text else "", content_type=TEXT)
    data = [InstructionOut.write(row) for row in pulled.rows]
    return json_response({"data": data, "retry_after_s": pulled.retry_after_s})


@router.post("/instructions/ack", auth=BearerAuth("instructions:ack"), response=schemas.AckManyOut)
def instructions_ack_many(request: BearerRequest, body: schemas.AckManyIn) -> HttpResponse:
    """Acknowledge several instructions; the response has one result per id, in the same order."""
    rows = instructions.acknowledge(body.ids, caller=request.auth)
    return json_response(
        {
            "data": [
                {
                    "id": id,
                    "status": 200 if row else 404,
                    "instruction": InstructionOut.write(row) if row else None,
                }
                for id, row in zip(body.ids, rows, strict=True)
            ]
        }
    )


@router.get("/instructions/{id}", auth=PrincipalAuth("instructions:read"), response=InstructionOut)
def instructions_get(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Get an instruction."""
    rows = Instruction.objects.visible_to(request.auth).filter(pk=id)
    row = rows.values(*INSTRUCTION_COLUMNS, agent_name=F("agent__name")).first()
    if row is None:
        raise not_visible("instruction", id)
    return json_response(InstructionOut.write(row))


@router.post("/instructions/{id}/ack", auth=BearerAuth("instructions:ack"), response=InstructionOut)
def instructions_ack(
    request: BearerRequest, id: UUID, body: Body[schemas.AckIn | None] = None
) -> HttpResponse:
    """Acknowledge one of the agent's instructions, so that it is not sent again.

    Acknowledging it a second time changes nothing. If the instruction has failed or was canceled,
    the response contains it unchanged, with `late` set.
    """
    ack = body or schemas.AckIn.model_validate({})
    row = instructions.acknowledge([id], caller=request.auth, outcome=ack.outcome, note=ack.note)[0]
    if row is None:
        raise not_visible("instruction", id)
    return json_response(InstructionOut.write(row))


@router.post(
    "/instructions/{id}/cancel", auth=PrincipalAuth("instructions:write"), response=InstructionOut
)
def instructions_cancel(
    request: PrincipalRequest, id: UUID, body: Body[ReasonIn | None] = None
) -> HttpResponse:
    """Cancel an unsettled instruction."""
    project_id, reason = request.auth.project_id, body.reason if body else ""
    require_reason("instruction.cancel", [project_id], reason)
    row = instructions.cancel_one(id, project_id=project_id, note=reason, stamp=stamp_of(request))
    return json_response(InstructionOut.write(row))


@router.post(
    "/signals", auth=BearerAuth("signals:write"), response=schemas.SignalOut, tags=["signals"]
)
def signals_create(request: BearerRequest, body: schemas.SignalIn) -> HttpResponse:
    """Report something the agent did or saw.

    The signal acknowledges each of the agent's unsettled instructions that expects its type and
    whose match is contained in its data. The data is stored with the instruction, without secrets.
    Standing instructions that wait for the signal are sent.
    """
    reported = signal_matching.report_signal(
        body.type, body.data, caller=request.auth, session=body.session, attempt=body.attempt
    )
    return json_response({"acknowledged": reported.acknowledged, "sent": reported.sent})
