"""Make a task of a to-do that was found in a session, or link the to-do to a task."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction

from ledger import tasks
from ledger.database import sql
from ledger.errors import Invalid, InvalidTransition, NotFound
from ledger.journal import Stamp
from ledger.models import Agent, SessionTask, Task
from ledger.sessions import statements
from ledger.tasks import Spec
from ledger.tokens import TrustedCaller
from ledger.values.text import truncate

TYPE = "todo"
TITLE_LENGTH = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTask:
    """The fields of the task that a person or a producer sets; the to-do has the rest."""

    title: str = ""
    type: str = TYPE
    agent: Agent | None = None
    priority: int = 0


def find_todo(session_id: UUID, order: int) -> SessionTask:
    """Return a to-do with its session and task; raise NotFound if there is none."""
    rows = SessionTask.objects.select_related("session__agent", "task")
    found = rows.filter(session=session_id, order=order).first()
    if found is None:
        raise NotFound(f"The session {session_id} has no to-do {order}.")
    return found


def make_task(todo: SessionTask, asked: NewTask, *, stamp: Stamp) -> UUID:
    """Enqueue a task for the to-do, link the two, and return the task's id.

    The task goes to the session's agent unless another one is given. Raises InvalidTransition if
    the to-do is linked already, and what enqueuing raises.
    """
    agent = asked.agent or todo.session.agent
    if agent.project_id != todo.session.project_id:
        raise Invalid("/agent", "The agent must be of the session's project.")
    spec = Spec(
        type=asked.type or TYPE,
        title=asked.title or truncate(" ".join(todo.description.split()), TITLE_LENGTH),
        priority=asked.priority,
        payload=write_payload(todo),
    )
    with transaction.atomic():
        rows = tasks.enqueue_many([(agent, spec)], stamp=stamp)
        task: UUID = rows[0]["id"]
        link(todo, task, name=str(task), stamp=stamp)
    return task


def write_payload(todo: SessionTask) -> dict[str, Any]:
    payload: dict[str, Any] = {"action": todo.description}
    if todo.progress:
        payload["context"] = [str(note) for note in todo.progress]
    return payload


def link_task(todo: SessionTask, task: Task, *, stamp: Stamp) -> None:
    """Link the to-do to a task of its project.

    Linking the same task again does nothing. Raises InvalidTransition if the to-do is linked to
    another task, and NotFound for a task of another project.
    """
    if task.project_id != todo.session.project_id:
        raise NotFound(f"There is no task {task.pk} in the session's project.")
    if todo.task_id != task.pk:
        link(todo, task.pk, name=task.ref or str(task.pk), stamp=stamp)


def link(todo: SessionTask, task_id: UUID, *, name: str, stamp: Stamp) -> None:
    rows = sql.run(
        statements.LINK_TASK,
        id=todo.pk,
        task=task_id,
        task_name=name,
        now=stamp.at,
        **TrustedCaller(stamp.actor, request_id=stamp.request_id).params,
    )
    if not rows:
        raise InvalidTransition(
            f"To-do {todo.order} is linked to a task already.", current="linked", allowed=[]
        )


def find_task(text: str, *, project_id: UUID) -> Task:
    """Return the project's task with this id or ref; raise Invalid if there is none."""
    rows = Task.objects.filter(project=project_id)
    try:
        found = rows.filter(pk=UUID(text)).first()
    except ValueError:
        # a ref may be used again by a later run of its plan: the newest one is meant
        found = rows.filter(ref=text).order_by("-id").first() if "\0" not in text else None
    if found is None:
        raise Invalid("/task", f"There is no task “{text[:80]}” in this project.")
    return found
