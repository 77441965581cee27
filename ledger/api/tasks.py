"""Tasks over HTTP: producers enqueue, everybody concerned reads."""

import json
import re
from typing import Any
from uuid import UUID

from django.contrib.postgres.expressions import ArraySubquery
from django.db import transaction
from django.db.models import F, OuterRef, Q, QuerySet
from django.http import HttpResponse
from ninja import Query, Router

from ledger import agents, sql, tasks
from ledger.api import cursors
from ledger.api.auth import PrincipalAuth, PrincipalRequest, actor
from ledger.api.responses import answer, idempotent, listed
from ledger.errors import IfMatchRequired, Invalid, NotFound, Refusal
from ledger.models import Agent, Attempt, Event, Need, Project, Task
from ledger.models.task import TaskQuerySet
from ledger.moves import TASK_COLUMNS
from ledger.principal import Principal
from ledger.schemas import tasks as schemas
from ledger.schemas.attempts import AttemptList, AttemptOut, attempt_out
from ledger.schemas.platform import EventList, event_out
from ledger.schemas.tasks import task_out
from ledger.sql import Row
from ledger.states import TaskState, Who
from ledger.tasks import Change, Spec
from ledger.tasks.enqueuing import task_pointers
from ledger.tasks.spec import backoff_of, spec_of
from ledger.tokens import ScopeMissing

router = Router(tags=["tasks"])

WHO = {"agent": Who.AGENT, "orchestrator": Who.PRODUCER, "operator": Who.PERSON}


def who_of(principal: Principal) -> Who:
    """Whose moves a caller may make; a reader makes none, and sees the producer's."""
    return WHO.get(principal.kind, Who.PRODUCER)


def agent_for(
    body: schemas.TaskIn, request: PrincipalRequest, project: Project, *, at: str
) -> Agent:
    """The agent that the task is for; an agent enqueues for itself alone."""
    who = request.auth
    if who.is_agent:
        if body.agent not in ("", who.agent_name):
            raise ScopeMissing(
                "An agent's token enqueues for its own agent alone.", scope="tasks:write"
            )
        return Agent.objects.visible_to(who).get()
    if not body.agent:
        raise Invalid(f"{at}/agent", "Say which agent the task is for.")
    if body.register_:
        return agents.register(body.agent, project=project, actor=actor(who), request_id=request.id)
    return agents.get_by_name(body.agent, project=project)


def request_spec(body: schemas.TaskIn, *, at: str) -> Spec:
    if body.max_retries not in (None, body.max_attempts) and body.max_attempts is not None:
        raise Invalid(f"{at}/max_retries", "max_retries is another name of max_attempts: send one.")
    return spec_of(
        body,
        backoff=backoff_of(body.backoff or schemas.BackoffIn.model_validate({})),
        needs=body.needs,
        max_attempts=body.max_attempts if body.max_attempts is not None else body.max_retries,
    )


def enqueued(request: PrincipalRequest, bodies: list[schemas.TaskIn]) -> list[Row]:
    """The rows of new tasks; all are made, or none, and no agent for what is refused."""
    if any(body.register_ for body in bodies):
        return sql.atomic(made)(request, bodies)
    return made(request, bodies)


def made(request: PrincipalRequest, bodies: list[schemas.TaskIn]) -> list[Row]:
    project = Project.objects.get(pk=request.auth.project_id)
    places = task_pointers(bodies)
    asked = [
        (agent_for(body, request, project, at=at), request_spec(body, at=at))
        for body, at in zip(bodies, places, strict=True)
    ]
    return tasks.enqueue_many(
        asked, actor=actor(request.auth), request_id=request.id, pointers=places
    )


@router.post(
    "/tasks/bulk",
    auth=PrincipalAuth("tasks:write"),
    response={200: schemas.EachTaskOut, 201: schemas.TasksOut},
    openapi_extra={"x-idempotent": True},
)
def tasks_enqueue_many(
    request: PrincipalRequest, body: schemas.TasksIn, asked: Query[schemas.ManyQuery]
) -> HttpResponse:
    """Enqueue several tasks: all of them or none, or with `?atomic=false` each for itself."""

    def work() -> tuple[int, Any]:
        if not asked.atomic:
            return 200, {"data": [by_itself(request, n, each) for n, each in enumerate(body.tasks)]}
        rows = enqueued(request, body.tasks)
        return 201, {"data": [task_out(row, who=who_of(request.auth)) for row in rows]}

    return idempotent(request, work)


def by_itself(request: PrincipalRequest, index: int, body: schemas.TaskIn) -> dict[str, Any]:
    """What came of one of many, whatever came of the others: the task, or its problem."""
    try:
        with transaction.atomic():
            row = enqueued(request, [body])[0]
    except Refusal as refusal:
        problem = request.problem_of(refusal)
        return {
            "index": index,
            "status": problem.status_code,
            "body": json.loads(problem.content),
        }
    return {"index": index, "status": 201, "body": task_out(row, who=who_of(request.auth))}


@router.get("/tasks", auth=PrincipalAuth("tasks:read"), response=schemas.TaskList)
def tasks_list(request: PrincipalRequest, asked: Query[schemas.TaskQuery]) -> HttpResponse:
    """List tasks, newest first."""
    query = Task.objects.visible_to(request.auth)
    if asked.state:
        query = query.filter(state__in=states(asked.state))
    if asked.agent:
        query = query.filter(agent__name=asked.agent)
    if asked.type:
        query = query.filter(type=asked.type)
    if asked.q:
        query = query.filter(title__icontains=asked.q)
    if asked.plan:
        query = query.filter(in_plan(asked.plan))
    if asked.ref:
        query = query.filter(ref=asked.ref).current()
    if asked.updated_after:
        query = query.filter(updated_at__gt=asked.updated_after)
    rows = as_rows(query)
    filters = asked.model_dump(exclude={"limit", "cursor"})
    page = cursors.cut(rows, limit=asked.limit, cursor=asked.cursor, filters=filters)
    who = who_of(request.auth)
    return answer(listed(page, (task_out(row, who=who) for row in page.rows)))


def as_rows(query: TaskQuerySet) -> "QuerySet[Task, Any]":
    """The tasks as `task_out` takes them."""
    needs = Need.objects.filter(task=OuterRef("pk")).order_by("need_id").values("need_id")
    rows: QuerySet[Task, Any] = query.values(
        *TASK_COLUMNS, agent_name=F("agent__name"), need_ids=ArraySubquery(needs)
    )
    return rows


def in_plan(asked: str) -> Q:
    try:
        return Q(plan_id=UUID(asked))
    except ValueError:
        return Q(plan__ref=asked)


def states(text: str) -> list[str]:
    asked = text.split(",")
    if unknown := [state for state in asked if state not in TaskState.values]:
        known = ", ".join(TaskState.values)
        raise Invalid("/state", f"'{unknown[0]}' is not a state; the states are {known}.")
    return asked


def visible(request: PrincipalRequest, id: UUID) -> Row:
    """A task that the caller may see, as a row; raises NotFound."""
    query = Task.objects.visible_to(request.auth).filter(pk=id)
    row: Row | None = as_rows(query).first()
    if row is None:
        raise NotFound(f"There is no task {id} that this token may see.")
    return row


def tagged(row: Row, request: PrincipalRequest, **more: Any) -> HttpResponse:
    """The task with its version as ETag; `more` are values that are told beside."""
    response = answer(task_out(row, who=who_of(request.auth)) | more)
    response["ETag"] = f'"v{row["version"]}"'
    return response


@router.patch("/tasks/{id}", auth=PrincipalAuth("tasks:write"), response=schemas.TaskOut)
def tasks_change(request: PrincipalRequest, id: UUID, body: schemas.TaskPatch) -> HttpResponse:
    """Change a task that is not over; `If-Match` names the version that was read."""
    visible(request, id)
    project = Project.objects.get(pk=request.auth.project_id)
    tasks.change(
        id,
        Change(
            priority=body.priority,
            agent=None if body.agent is None else agents.get_by_name(body.agent, project=project),
            payload=body.payload,
            max_attempts=body.max_attempts,
            backoff=backoff_of(body.backoff) if body.backoff else None,
        ),
        version=version_asked(request),
        actor=actor(request.auth),
        request_id=request.id,
    )
    return tagged(visible(request, id), request)


ETAG = re.compile(r'"v([1-9][0-9]{0,8})"')


def version_asked(request: PrincipalRequest) -> int:
    """The version in If-Match; raises IfMatchRequired and Invalid."""
    asked = request.headers.get("If-Match")
    if not asked:
        raise IfMatchRequired("The request has no If-Match.")
    match = ETAG.fullmatch(asked)
    if match is None:
        raise Invalid("/If-Match", 'If-Match is the ETag that was read, such as "v7".')
    return int(match[1])


@router.get("/tasks/{id}/attempts", auth=PrincipalAuth("tasks:read"), response=AttemptList)
def tasks_attempts(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """List the attempts of a task, the newest first, each with its failure."""
    visible(request, id)
    rows = Attempt.objects.filter(task_id=id).select_related("failure").order_by("-number")[:100]
    data = [attempt_out(row) for row in rows]
    return answer({"data": data, "next_cursor": None, "has_more": False})


@router.get("/tasks/{id}/events", auth=PrincipalAuth("tasks:read"), response=EventList)
def tasks_events(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """List what happened to a task, the oldest first."""
    visible(request, id)
    rows = Event.objects.filter(subject_id=id).order_by("id").values()[:1000]
    data = [event_out(dict(row)) for row in rows]
    return answer({"data": data, "next_cursor": None, "has_more": False})


@router.get("/attempts/{id}", auth=PrincipalAuth("tasks:read"), response=AttemptOut)
def attempts_get(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Read one attempt, with its failure and the decision that followed."""
    query = Attempt.objects.visible_to(request.auth).select_related("failure")
    attempt = query.filter(pk=id).first()
    if attempt is None:
        raise NotFound(f"There is no attempt {id} that this token may see.")
    return answer(attempt_out(attempt))
