"""Make a task of a session's to-do over HTTP, or link the to-do to a task."""

from typing import Any
from uuid import UUID

from django.http import HttpResponse
from ninja import Router

from ledger import agents
from ledger.api.auth import PrincipalAuth, PrincipalRequest, stamp_of
from ledger.api.responses import respond_once
from ledger.errors import NotFound
from ledger.models import Message, Project
from ledger.schemas.sessions.session import SessionTaskOut
from ledger.schemas.sessions.tasks import SessionTaskLinkIn
from ledger.sessions import task_links
from ledger.sessions.task_links import NewTask
from ledger.tokens import ScopeMissing
from retries.api.sessions.session import find_session

router = Router(tags=["sessions"])
MOST_ORDER = 2**31 - 1


@router.post(
    "/sessions/{id}/tasks/{order}/task",
    auth=PrincipalAuth("tasks:write"),
    response={201: SessionTaskOut, 200: SessionTaskOut},
    openapi_extra={"x-idempotent": True},
)
def sessions_link_task(
    request: PrincipalRequest, id: UUID, order: int, body: SessionTaskLinkIn
) -> HttpResponse:
    """Make a task of a to-do that was found in a session, or link the to-do to a task.

    Returns 201 with the new task's id in `task`, or 200 if `task` names one that exists. A to-do is
    linked once: afterwards the call is 409, unless it names the same task again.
    """
    if request.auth.is_agent:
        raise ScopeMissing("To-dos become tasks with an orchestrator's or an operator's token.")
    body.check()
    session = find_session(request, id)
    if not 1 <= order <= MOST_ORDER:
        raise NotFound(f"The session {id} has no to-do {order}.")

    def link() -> tuple[int, Any]:
        todo = task_links.find_todo(session.id, order)
        stamp = stamp_of(request)
        if body.task is None:
            agent = None
            if body.agent is not None:
                project = Project.objects.get(pk=request.auth.project_id)
                agent = agents.get_by_name(body.agent, project=project)
            task_links.make_task(todo, NewTask(agent=agent, **body.fields()), stamp=stamp)
        else:
            task = task_links.find_task(body.task, project_id=session.project_id)
            task_links.link_task(todo, task, stamp=stamp)
        todo.refresh_from_db()
        orders = Message.objects.filter(session_task=todo).order_by("order")
        numbers = list(orders.values_list("order", flat=True))
        return 200 if body.task else 201, SessionTaskOut.write(todo, message_orders=list(numbers))

    return respond_once(request, link)
