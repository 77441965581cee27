"""Sessions over HTTP: conversations are stored, processed, and read with their tasks."""

from typing import Annotated, Any
from uuid import UUID

from django.db import transaction
from django.http import HttpResponse
from ninja import Body, Query, Router
from pydantic import WithJsonSchema
from pydantic_core import to_json

from ledger import agents
from ledger.api.auth import BearerAuth, BearerRequest, PrincipalAuth, PrincipalRequest, stamp_of
from ledger.api.parameters import find_agent_id, parse_states
from ledger.api.reading import find_visible, list_response
from ledger.api.responses import json_response, respond_once
from ledger.database import server_time
from ledger.errors import Invalid, NotFound
from ledger.models import Agent, Message, Project, Session, SessionTask
from ledger.schemas.sessions import messages as session_messages
from ledger.schemas.sessions import session as schemas
from ledger.schemas.sessions import tools as session_tools
from ledger.schemas.sessions.messages import MessageOut
from ledger.schemas.sessions.session import session_out
from ledger.schemas.sessions.tools import ToolAnswerOut
from ledger.schemas.shared import page_of
from ledger.sessions import batches, storing
from ledger.sessions.message_forms import read_message
from ledger.sessions.storing import MOST_MESSAGES, NewMessage
from ledger.sessions.tool_schemas import describe_tools
from ledger.states import MessageState
from ledger.tokens import ScopeMissing
from retries.sessions import buffering, retrying, tool_calling
from retries.sessions.flushing import flush_from_web

router = Router(tags=["sessions"])

MOST_BODY_BYTES = 8 * 1024 * 1024


@router.post(
    "/sessions",
    auth=PrincipalAuth("sessions:write"),
    response={201: schemas.SessionOut, 200: schemas.SessionOut},
)
def sessions_create(request: PrincipalRequest, body: schemas.SessionIn) -> HttpResponse:
    """Begin a session of an agent.

    Returns 201 if it was created. Returns 200 and the session as it is if the agent has one with
    this `external_id`.
    """
    session, created = storing.create_session(
        find_agent(request, body.agent),
        external_id=body.external_id,
        tracker=body.tracker,
        disable_task_tracking=body.disable_task_tracking,
        metadata=body.metadata,
        title=body.title,
        is_own=request.auth.is_agent,
        stamp=stamp_of(request),
    )
    return json_response(session_out(session, now=server_time.now()), 201 if created else 200)


def find_agent(request: PrincipalRequest, name: str | None) -> Agent:
    # An agent opens its own sessions; a producer names the agent.
    principal = request.auth
    if principal.agent_id:
        if name not in (None, principal.agent_name):
            raise NotFound(f"No agent '{name}' is visible to this token.")
        return Agent.objects.get(pk=principal.agent_id)
    if name is None:
        raise Invalid("/agent", "Name the agent whose session it is.")
    return agents.get_by_name(name, project=Project.objects.get(pk=principal.project_id))


@router.get(
    "/sessions",
    auth=PrincipalAuth("sessions:read"),
    response=page_of(schemas.SessionOut, "sessions, newest first"),
)
def sessions_list(request: PrincipalRequest, query: Query[schemas.SessionQuery]) -> HttpResponse:
    """List sessions, newest first."""
    rows = Session.objects.visible_to(request.auth).select_related("agent")
    if query.agent:
        rows = rows.filter(agent=find_agent_id(request.auth, query.agent))
    now = server_time.now()
    return list_response(rows, query, lambda rows: (session_out(row, now=now) for row in rows))


@router.get("/sessions/tools", auth=PrincipalAuth("sessions:read"), response=session_tools.ToolList)
def sessions_list_tools(request: PrincipalRequest) -> HttpResponse:
    """List the ledger tools that a model can call, with their arguments as JSON Schema."""
    return json_response({"data": describe_tools()})


@router.get("/sessions/{id}", auth=PrincipalAuth("sessions:read"), response=schemas.SessionOut)
def sessions_get(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Get a session."""
    return json_response(session_out(find_session(request, id), now=server_time.now()))


def find_session(request: PrincipalRequest, id: UUID) -> Session:
    rows = Session.objects.visible_to(request.auth).select_related("agent")
    return find_visible(rows, "session", id)


@router.post(
    "/sessions/{id}/messages",
    auth=BearerAuth("sessions:write", body_bytes=MOST_BODY_BYTES),
    response={201: session_messages.StoredOut},
    openapi_extra={"x-idempotent": True},
)
def sessions_store_messages(
    request: BearerRequest,
    id: UUID,
    body: Body[Annotated[Any, WithJsonSchema(session_messages.MESSAGES_IN)]],
) -> HttpResponse:
    """Append one message or up to 100 to a session, in the form of OpenAI or Anthropic.

    A message may have up to 1 MiB. Secrets are masked before it is stored. Messages wait in the
    session's buffer until it is full or its timer runs out, and then become tasks.
    """
    messages, attempt_id = read_messages(body)

    def store() -> tuple[int, Any]:
        if attempt_id:
            storing.check_attempt(attempt_id, session_id=id)
        stored = storing.store_messages(id, messages, caller=request.auth, attempt_id=attempt_id)
        buffering.announce(stored)
        return 201, {"message_ids": stored.message_ids, "pending": stored.pending}

    return respond_once(request, store)


def read_messages(body: Any) -> tuple[list[NewMessage], UUID | None]:
    """Return a body's messages and the attempt that it names; raise Invalid."""
    attempt_id = None
    where, given = "", body
    if isinstance(body, dict) and "messages" in body:
        if unknown := sorted(body.keys() - {"messages", "attempt"}):
            raise Invalid(f"/{unknown[0]}", "Extra inputs are not permitted")
        where, given, attempt_id = "/messages", body["messages"], read_attempt(body.get("attempt"))
        if not isinstance(given, list):
            raise Invalid(where, "messages must be a list.")
    if not isinstance(given, list):
        return [read_one(given, "")], attempt_id
    if not given:
        raise Invalid(where or "/", "The list of messages is empty.")
    if len(given) > MOST_MESSAGES:
        raise Invalid(
            where or "/",
            f"The list has {len(given)} messages; at most {MOST_MESSAGES} are allowed at once.",
        )
    return [read_one(each, f"{where}/{at}") for at, each in enumerate(given)], attempt_id


def read_one(message: Any, pointer: str) -> NewMessage:
    role, parts = read_message(message, pointer=pointer)
    storing.check_size(len(to_json(message)), pointer=pointer or "/")
    return NewMessage(role, parts)


def read_attempt(value: Any) -> UUID | None:
    if value is None:
        return None
    try:
        return UUID(value)
    except (ValueError, TypeError, AttributeError) as error:
        raise Invalid("/attempt", "attempt must be the id of an attempt.") from error


@router.get(
    "/sessions/{id}/messages",
    auth=PrincipalAuth("sessions:read"),
    response=page_of(MessageOut, "messages, oldest first"),
)
def sessions_list_messages(
    request: PrincipalRequest, id: UUID, query: Query[session_messages.MessageQuery]
) -> HttpResponse:
    """List a session's messages, oldest first."""
    session = find_session(request, id)
    rows = Message.objects.filter(session=session).select_related("session_task")
    if query.state:
        rows = rows.filter(state__in=parse_states(query.state, MessageState))
    return list_response(rows, query, MessageOut, oldest_first=True, session=id)


@router.get(
    "/sessions/{id}/tasks", auth=PrincipalAuth("sessions:read"), response=schemas.SessionTaskList
)
def sessions_list_tasks(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """List the tasks that were found in a session, in their order.

    Messages about the plan as a whole belong to none of them; `planning` marks those.
    """
    session = find_session(request, id)
    links = batches.links_of_tasks(session.id)
    rows = SessionTask.objects.filter(session=session).order_by("order")
    write = schemas.SessionTaskOut.write
    return json_response(
        {"data": [write(row, message_orders=list(links.get(row.id, ()))) for row in rows]}
    )


@router.get(
    "/sessions/{id}/status", auth=PrincipalAuth("sessions:read"), response=schemas.StatusOut
)
def sessions_get_status(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Get the number of a session's messages by state."""
    session = find_session(request, id)
    locked = session.is_locked(server_time.now())
    return json_response(schemas.StatusOut.write(session, locked=locked))


@router.post(
    "/sessions/{id}/flush", auth=PrincipalAuth("sessions:write"), response=schemas.FlushOut
)
def sessions_flush(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Process everything that waits in a session's buffer, and return when that is done.

    If a worker is processing the session, the call waits for it: 60 tries, a second apart, unless
    the settings say otherwise. After that it is 503.
    """
    return json_response({"processed": flush_from_web(find_session(request, id).id)})


@router.post(
    "/sessions/{id}/retry", auth=PrincipalAuth("sessions:write"), response=schemas.RetryOut
)
def sessions_retry(
    request: PrincipalRequest, id: UUID, body: Body[schemas.RetryIn | None] = None
) -> HttpResponse:
    """Return the messages of failed batches to the session's buffer, and have them processed.

    Messages that the batch had given to a task before it failed are done and stay so.
    """
    session = find_session(request, id)
    tracker = body.tracker if body else None
    returned = retrying.retry_failed(session, tracker=tracker, stamp=stamp_of(request))
    return json_response({"returned": returned})


@router.post(
    "/sessions/{id}/tool-calls",
    auth=PrincipalAuth("sessions:write"),
    response=session_tools.ToolAnswersOut,
    openapi_extra={"x-idempotent": True},
)
def sessions_call_tools(
    request: PrincipalRequest, id: UUID, body: session_tools.ToolCallsIn
) -> HttpResponse:
    """Run the ledger tool calls of one model response in one transaction.

    This is for a tracker of your own. An unknown tool or wrong arguments refuse all calls, and
    nothing is changed. A call that names a task or a message that is not there is answered with a
    sentence for the model, and the other calls take effect.
    """
    if request.auth.is_agent:
        raise ScopeMissing("A tracker's calls need the token of an orchestrator or an operator.")
    session = find_session(request, id)

    @transaction.atomic
    def call() -> tuple[int, Any]:
        answers = tool_calling.call_tools(
            session.id, body.as_calls(), first_message=body.first_message, stamp=stamp_of(request)
        )
        return 200, {"answers": [ToolAnswerOut.write(answer) for answer in answers]}

    return respond_once(request, call)
