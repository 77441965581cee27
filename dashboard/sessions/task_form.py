"""The form that makes a task of a to-do, or links it to one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from django.http import HttpRequest

from dashboard.form_values import read_whole_number
from dashboard.frame.access import may_open
from ledger.models import Agent, Session, SessionTask
from ledger.sessions import task_links
from ledger.values.text import truncate

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


def asked_form(
    request: HttpRequest, session: Session, todos: Iterable[SessionTask]
) -> TaskForm | None:
    """Return the form in an address, if the person may send it."""
    order = read_whole_number(request.GET.get("make", ""))
    if order is None or not may_open(request.user, "session_task"):
        return None
    open_ones = (each for each in todos if each.order == order and each.task_id is None)
    todo = next(open_ones, None)
    return build_form(session, todo) if todo else None


def build_form(
    session: Session, todo: SessionTask, data: Mapping[str, str] | None = None, **more: object
) -> TaskForm:
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
