"""Tasks and attempts over HTTP: producers enqueue in bulk, everyone reads attempts and events.

`retries.api.tasks` adds operations to this router: an address belongs to one router.
"""

import json
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.postgres.expressions import ArraySubquery
from django.db import transaction
from django.db.models import F, JSONField, OuterRef, QuerySet, Subquery, UUIDField
from django.db.models.expressions import RawSQL
from django.db.models.functions import Concat
from django.http import HttpResponse
from ninja import Query, Router

from ledger import agents, tasks
from ledger.access.daily_limits import count_tasks
from ledger.api.auth import PrincipalAuth, PrincipalRequest, not_visible, stamp_of
from ledger.api.reading import list_response
from ledger.api.responses import json_response, respond_once
from ledger.authorization.principal import Principal
from ledger.database import server_time, sql
from ledger.database.sql import Row
from ledger.errors import Invalid, Refusal
from ledger.journal import Stamp
from ledger.models import Agent, Attempt, Event, Need, Project, Task
from ledger.models.task import TaskQuerySet
from ledger.moves import TASK_COLUMNS
from ledger.needs import skipped_needs
from ledger.schemas import tasks as schemas
from ledger.schemas.events import EventList, events_out
from ledger.schemas.shared import PageQuery
from ledger.schemas.tasks import task_out
from ledger.states import EvidenceLevel, Who
from ledger.tasks import Spec, type_pauses
from ledger.tasks.enqueuing import task_pointers
from ledger.tasks.exclusive_files import holder_of
from ledger.tasks.spec import USUAL_PRIORITY, backoff_of, spec_of
from ledger.tasks.steps import AFTER_ENQUEUE
from ledger.tokens import ScopeMissing

router = Router(tags=["tasks"])

WHO = {"agent": Who.AGENT, "orchestrator": Who.PRODUCER, "operator": Who.PERSON}


def role_of(principal: Principal) -> Who | None:
    # A reader may make no moves.
    return WHO.get(principal.kind)


# ---- enqueue


@router.post(
    "/tasks/bulk",
    auth=PrincipalAuth("tasks:write"),
    response={200: schemas.EachTaskOut, 201: schemas.TasksOut},
    openapi_extra={"x-idempotent": True},
)
def tasks_create_many(
    request: PrincipalRequest, body: schemas.TasksIn, query: Query[schemas.ManyQuery]
) -> HttpResponse:
    """Enqueue several tasks: all or none, or each on its own with `?atomic=false`."""

    def enqueue_each() -> tuple[int, Any]:
        results = [enqueue_one(request, n, task) for n, task in enumerate(body.tasks)]
        return 200, {"data": results}

    def enqueue_all() -> tuple[int, Any]:
        rows = enqueue(request, body.tasks)
        return 201, {"data": [task_out(row, who=role_of(request.auth)) for row in rows]}

    return respond_once(request, enqueue_all if query.atomic else enqueue_each)


def enqueue_one(request: PrincipalRequest, index: int, body: schemas.TaskIn) -> dict[str, Any]:
    try:
        with transaction.atomic():
            row = enqueue(request, [body])[0]
    except Refusal as refusal:
        response = request.refusal_response(refusal)
        return {
            "index": index,
            "status": response.status_code,
            "body": json.loads(response.content),
        }
    return {"index": index, "status": 201, "body": task_out(row, who=role_of(request.auth))}


def enqueue(request: PrincipalRequest, bodies: list[schemas.TaskIn]) -> list[Row]:
    principal = request.auth

    def insert() -> list[Row]:
        project = Project.objects.get(pk=request.auth.project_id)
        pointers = task_pointers(bodies)
        specs = [
            (find_or_register_agent(request, body, project, at=at), request_spec(body, at=at))
            for body, at in zip(bodies, pointers, strict=True)
        ]
        if principal.is_agent:
            check_own_budget([spec for _, spec in specs], pointers)
            count_tasks(specs[0][0], len(specs), now=server_time.now())
        stamp = stamp_of(request)
        rows = tasks.enqueue_many(
            specs, stamp=stamp, pointers=pointers, visible_to_agent=principal.agent_id
        )
        if has_budgets:
            take_steps(rows, bodies, stamp)
        return rows

    # A refused task must not leave a newly registered agent behind, nor count for the day.
    has_budgets = any(body.budget for body in bodies)
    has_more = principal.is_agent or has_budgets or any(body.register_ for body in bodies)
    return sql.atomic(insert)() if has_more else insert()


def take_steps(rows: list[Row], bodies: list[schemas.TaskIn], stamp: Stamp) -> None:
    for step in AFTER_ENQUEUE:
        step(list(zip(rows, bodies, strict=True)), stamp)


@sql.atomic
def enqueue_by_hand(body: schemas.TaskIn, *, project: Project, stamp: Stamp) -> Row:
    agent = find_named_agent(body, project, stamp=stamp, at="")
    rows = tasks.enqueue_many([(agent, request_spec(body, at=""))], stamp=stamp)
    take_steps(rows, [body], stamp)
    return rows[0]


def check_own_budget(specs: list[Spec], pointers: list[str]) -> None:
    """Refuse an agent that gives its own task more than other tasks get by default."""
    limits = {
        "max_attempts": settings.TENFOUR["TASK_MAX_ATTEMPTS"],
        "priority": USUAL_PRIORITY,  # a higher one would overtake the tasks of producers
    }
    for spec, at in zip(specs, pointers, strict=True):
        for name, most in limits.items():
            if (getattr(spec, name) or 0) > most:
                raise Invalid(f"{at}/{name}", f"An agent's token can set {name} to at most {most}.")
        if spec.evidence not in (None, EvidenceLevel.REQUIRE):
            raise Invalid(f"{at}/evidence", "An agent's token can set evidence only to 'require'.")


def find_or_register_agent(
    request: PrincipalRequest, body: schemas.TaskIn, project: Project, *, at: str
) -> Agent:
    # An agent's token can enqueue only for its own agent.
    principal = request.auth
    if principal.is_agent:
        if body.agent not in ("", principal.agent_name):
            raise ScopeMissing(
                "An agent's token can enqueue tasks only for its own agent.", scope="tasks:write"
            )
        return Agent.objects.visible_to(principal).get()
    return find_named_agent(body, project, stamp=stamp_of(request), at=at)


def find_named_agent(body: schemas.TaskIn, project: Project, *, stamp: Stamp, at: str) -> Agent:
    if not body.agent:
        raise Invalid(f"{at}/agent", "Set the agent that should do the task.")
    if body.register_:
        return agents.register(body.agent, project=project, stamp=stamp)
    return agents.get_by_name(body.agent, project=project)


def request_spec(body: schemas.TaskIn, *, at: str) -> Spec:
    if body.max_retries not in (None, body.max_attempts) and body.max_attempts is not None:
        raise Invalid(
            f"{at}/max_retries", "max_retries is another name for max_attempts. Send only one."
        )
    return spec_of(
        body,
        backoff=backoff_of(body.backoff or schemas.BackoffIn.model_validate({})),
        needs=body.needs,
        max_attempts=body.max_attempts if body.max_attempts is not None else body.max_retries,
    )


# ---- types


@router.get("/task-types", auth=PrincipalAuth("tasks:read"), response=schemas.TaskTypesOut)
def task_types_list(request: PrincipalRequest) -> HttpResponse:
    """List the project's paused types of tasks, by name."""
    rows = type_pauses.list_pauses(request.auth.project_id)
    return json_response({"data": [schemas.TaskTypeOut.write(row) for row in rows]})


@router.patch("/task-types/{id}", auth=PrincipalAuth("tasks:write"), response=schemas.TaskTypeOut)
def task_types_update(
    request: PrincipalRequest, id: str, body: schemas.TaskTypePatch
) -> HttpResponse:
    """Pause or resume the tasks of a type: while it is paused, no claim hands one out.

    Running tasks continue, and new ones are queued.
    """
    row, _ = type_pauses.set_paused(
        id,
        paused=body.paused,
        project_id=request.auth.project_id,
        note=body.note,
        stamp=stamp_of(request),
    )
    return json_response(schemas.TaskTypeOut.write(row))


# ---- read


def as_rows(tasks: TaskQuerySet) -> "QuerySet[Task, Any]":
    needs = Need.objects.filter(task=OuterRef("pk")).order_by("need_id").values("need_id")
    latest = Attempt.objects.filter(task=OuterRef("pk"), number=OuterRef("attempts")).values(
        ids=Concat("trace_id", "span_id")
    )
    rows: QuerySet[Task, Any] = tasks.values(
        *TASK_COLUMNS,
        agent_name=F("agent__name"),
        pool_name=F("pool__name"),
        assignee_name=F("assignee__username"),
        need_ids=ArraySubquery(needs),
        latest_trace=Subquery(latest),
        files_held_by=RawSQL(holder_of("ledger_task"), (), UUIDField()),  # noqa: S611
        skipped_needs=RawSQL(skipped_needs("ledger_task.id"), (), JSONField()),  # noqa: S611
    )
    return rows


def find_task(request: PrincipalRequest, id: UUID) -> Row:
    """Return a task that the caller may see, as a row; raise NotFound."""
    row: Row | None = as_rows(Task.objects.visible_to(request.auth).filter(pk=id)).first()
    if row is None:
        raise not_visible("task", id)
    return row


@router.get("/tasks/{id}/events", auth=PrincipalAuth("tasks:read"), response=EventList)
def tasks_list_events(request: PrincipalRequest, id: UUID, query: Query[PageQuery]) -> HttpResponse:
    """List a task's events, oldest first."""
    find_task(request, id)
    rows: QuerySet[Event, Any] = Event.objects.about(id).values()
    return list_response(rows, query, events_out, oldest_first=True, task=id)
