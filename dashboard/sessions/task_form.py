"""The form that makes a task of a to-do, or links it to one."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from django.http import HttpRequest

from dashboard.access import may_open
from ledger.models import Agent, Session, SessionTask
from ledger.sessions import task_links
from ledger.text import truncate

AGENTS_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskForm:
    """The form's content: the values typed, the agents to choose from, and errors by field."""

    todo: SessionTask
    title: str
    agent: str
    type: str
    task: str = ""
    agents: list[str] = field(default_factory=list)
    errors: Mapping[str, list[str]] = field(default_factory=dict)


def asked_form(request: HttpRequest, session: Session) -> TaskForm | None:
    """Return the form that an address asks for, if the person may send it."""
    order = request.GET.get("make", "")
    if not (order.isascii() and order.isdigit() and len(order) < 10):
        return None
    if not may_open(request.user, "session_task"):
        return None
    rows = SessionTask.objects.filter(session=session, order=int(order), task=None)
    todo = rows.first()
    return build_form(session, todo) if todo else None


def build_form(
    session: Session, todo: SessionTask, data: Mapping[str, str] | None = None, **more: object
) -> TaskForm:
    """Return the form as it was sent, or filled in from the to-do."""
    names = Agent.objects.filter(project=session.project_id).order_by("name")
    sent = data or {}
    errors = more.get("errors")
    return TaskForm(
        todo=todo,
        title=sent.get("title", title_of(todo)),
        agent=sent.get("agent", session.agent.name),
        type=sent.get("type", task_links.TYPE),
        task=sent.get("task", ""),
        agents=list(names.values_list("name", flat=True)[:AGENTS_SHOWN]),
        errors=errors if isinstance(errors, dict) else {},
    )


def title_of(todo: SessionTask) -> str:
    return truncate(" ".join(todo.description.split()), task_links.TITLE_LENGTH)
