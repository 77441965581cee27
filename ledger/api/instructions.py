"""Instructions over HTTP: producers send, agents pull, acknowledge and report signals."""

from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import F
from django.http import HttpResponse
from ninja import Body, Query, Router

from ledger import agents, instructions, signal_matching, sql
from ledger.api import cursors
from ledger.api.auth import BearerRequest, PrincipalAuth, PrincipalRequest, TenfourToken, actor
from ledger.api.responses import answer, idempotent, listed
from ledger.errors import Invalid, NotFound
from ledger.instructions import Expect
from ledger.models import Agent, Instruction, Project
from ledger.moves import INSTRUCTION_COLUMNS
from ledger.schemas import instructions as schemas
from ledger.schemas.instructions import instruction_out
from ledger.states import InstructionState

router = Router(tags=["instructions"])


@router.post(
    "/instructions",
    auth=PrincipalAuth("instructions:write"),
    response={201: schemas.InstructionOut, 200: schemas.InstructionOut},
    openapi_extra={"x-idempotent": True},
)
def instructions_send(request: PrincipalRequest, body: schemas.InstructionIn) -> HttpResponse:
    """Send an instruction to an agent.

    201 when it was queued; 200 with `deduplicated` when the same content is on its way to this
    agent and not yet settled. It may be delivered several times, so it must be safe to follow
    twice.
    """
    who = request.auth

    def work() -> tuple[int, Any]:
        row = instructions.send(
            the_agent(body, who.project_id, request),
            body.content,
            tracked=body.tracked,
            max_retries=body.max_retries,
            expect=Expect(body.expect.type, body.expect.match) if body.expect else None,
            priority=body.priority,
            on_failed=body.on_failed,
            actor=actor(who),
            request_id=request.id,
        )
        return (200 if row["deduplicated"] else 201), instruction_out(row)

    return idempotent(request, sql.atomic(work) if body.register_ else work)


def the_agent(body: schemas.InstructionIn, project_id: UUID, request: PrincipalRequest) -> Agent:
    project = Project.objects.get(pk=project_id)
    if body.register_:
        who = actor(request.auth)
        return agents.register(body.agent, project=project, actor=who, request_id=request.id)
    return agents.get_by_name(body.agent, project=project)


@router.get(
    "/instructions", auth=PrincipalAuth("instructions:read"), response=schemas.InstructionList
)
def instructions_list(
    request: PrincipalRequest,
    asked: Query[schemas.InstructionQuery],
) -> HttpResponse:
    """List instructions, newest first."""
    query = Instruction.objects.visible_to(request.auth)
    if asked.state:
        query = query.filter(state__in=states(asked.state))
    if asked.agent:
        query = query.filter(agent__name=asked.agent)
    rows = query.values(*INSTRUCTION_COLUMNS, agent_name=F("agent__name"))
    filters = {"state": asked.state, "agent": asked.agent}
    page = cursors.cut(rows, limit=asked.limit, cursor=asked.cursor, filters=filters)
    return answer(listed(page, map(instruction_out, page.rows)))


def states(text: str) -> list[str]:
    asked = text.split(",")
    if unknown := [state for state in asked if state not in InstructionState.values]:
        known = ", ".join(InstructionState.values)
        raise Invalid("/state", f"'{unknown[0]}' is not a state; the states are {known}.")
    return asked


@router.post("/instructions/pull", auth=TenfourToken("instructions:ack"), response=schemas.PullOut)
def instructions_pull(
    request: BearerRequest, body: Body[schemas.PullIn | None] = None
) -> HttpResponse:
    """Fetch what waits in the agent's own queue; it is delivered by that.

    With `Accept: text/plain` the texts alone come back, a blank line between two.
    """
    limit = body.limit if body else 10
    rows = instructions.pull(request.auth, limit=limit)
    if "text/plain" in request.META.get("HTTP_ACCEPT", ""):
        text = "\n\n".join(instruction_out(row)["text"] for row in rows)
        return HttpResponse(text + "\n" if rows else "", content_type="text/plain; charset=utf-8")
    wait = 0 if len(rows) == limit else settings.TENFOUR["POLL_SECONDS"]
    return answer({"data": [instruction_out(row) for row in rows], "retry_after_s": wait})


@router.post(
    "/instructions/ack", auth=TenfourToken("instructions:ack"), response=schemas.AckManyOut
)
def instructions_ack_many(request: BearerRequest, body: schemas.AckManyIn) -> HttpResponse:
    """Acknowledge several instructions; each id has its own result, in the order given."""
    rows = instructions.acknowledge(body.ids, caller=request.auth)
    return answer(
        {
            "data": [
                {
                    "id": each,
                    "status": 200 if row else 404,
                    "instruction": instruction_out(row) if row else None,
                }
                for each, row in zip(body.ids, rows, strict=True)
            ]
        }
    )


@router.get(
    "/instructions/{id}", auth=PrincipalAuth("instructions:read"), response=schemas.InstructionOut
)
def instructions_get(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Read one instruction."""
    query = Instruction.objects.visible_to(request.auth)
    row = query.filter(pk=id).values(*INSTRUCTION_COLUMNS, agent_name=F("agent__name")).first()
    if row is None:
        raise absent(id)
    return answer(instruction_out(row))


@router.post(
    "/instructions/{id}/ack", auth=TenfourToken("instructions:ack"), response=schemas.InstructionOut
)
def instructions_ack(
    request: BearerRequest, id: UUID, body: Body[schemas.AckIn | None] = None
) -> HttpResponse:
    """Acknowledge one of the agent's own instructions: it is not sent again.

    A second ack changes nothing. One that comes after it failed or was cancelled gets the unchanged
    row with `late`.
    """
    row = instructions.acknowledge(
        [id],
        caller=request.auth,
        outcome=body.outcome if body else "done",
        note=body.note if body else "",
    )[0]
    if row is None:
        raise absent(id)
    return answer(instruction_out(row))


@router.post(
    "/instructions/{id}/cancel",
    auth=PrincipalAuth("instructions:write"),
    response=schemas.InstructionOut,
)
def instructions_cancel(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Withdraw an instruction that is not settled."""
    who = request.auth
    row = instructions.cancel_one(id, project_id=who.project_id, actor=actor(who))
    return answer(instruction_out(row))


@router.post(
    "/signals", auth=TenfourToken("signals:write"), response=schemas.SignalOut, tags=["signals"]
)
def signals_report(request: BearerRequest, body: schemas.SignalIn) -> HttpResponse:
    """Report what the agent did or saw.

    Every unsettled instruction of the agent's that expects this type, and whose match is contained
    in the data, is acknowledged; the data is kept with it.
    """
    acked = signal_matching.signal(body.type, body.data, caller=request.auth)
    return answer({"acknowledged": acked})


def absent(id: UUID) -> NotFound:
    return NotFound(f"There is no instruction {id} that this token may see.")
