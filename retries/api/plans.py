"""Plans over HTTP: imported from a file, read, paused, stopped, started anew."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any
from uuid import UUID

from django.http import HttpResponse
from ninja import Body, Query, Router

from ledger import planfile
from ledger.api import cursors
from ledger.api.auth import PrincipalAuth, PrincipalRequest, actor
from ledger.api.responses import answer, idempotent, listed
from ledger.api.tasks import version_asked
from ledger.errors import Invalid, InvalidTransition, NotFound
from ledger.models import Plan, PlanState, Project
from ledger.planfile.model import BYTES
from ledger.plans import editing as plan_editing
from ledger.plans.import_diff import ImportOptions, ImportResult
from ledger.schemas import plans as schemas
from ledger.schemas.plans import plan_out, plan_task_out
from ledger.states import TaskState
from retries.api.escalations import Person
from retries.plans import aborting, importing, restarting
from retries.schemas.escalations import RestartIn

router = Router(tags=["plans"])

# The body is a file in one of these types: it is read by `planfile`, not by the API's parser.
EXAMPLE = """ref: 03-01
title: Planner ids
agent: coder
tasks:
  - title: Create InvalidPlannerIdError
    action: Add the error and use it
    verify: {command: npm test -- PlannerId, timeout_s: 120}
  - title: Use it everywhere
    needs: [task-1]
"""
XML = """<plan ref="03-01" agent="coder">
  <tasks>
    <task id="1"><name>Create the error</name><action>Add it and use it</action></task>
  </tasks>
</plan>
"""
MARKDOWN = """---
phase: 03-ids
plan: 01
agent: coder
---
<task type="auto">
  <name>Create the error</name>
  <verify><automated>npm test</automated></verify>
</task>
"""
CONTENT: dict[str, Any] = {
    "application/json": {
        "schema": {"type": "object"},
        "example": {
            "ref": "03-01",
            "agent": "coder",
            "tasks": [{"title": "Create the error", "action": "Add it and use it"}],
        },
    },
    "application/yaml": {"schema": {"type": "string"}, "example": EXAMPLE},
    "application/xml": {"schema": {"type": "string"}, "example": XML},
    "text/markdown": {"schema": {"type": "string"}, "example": MARKDOWN},
}


@router.post(
    "/plans",
    auth=PrincipalAuth("plans:write", body_bytes=BYTES),
    response={201: schemas.ImportedOut, 200: schemas.ImportedOut},
    openapi_extra={
        "x-idempotent": True,
        "requestBody": {"required": True, "content": CONTENT},
    },
)
def plans_import(request: PrincipalRequest, asked: Query[schemas.ImportQuery]) -> HttpResponse:
    """Import a plan: a file of JSON, YAML, XML or Markdown, all of it or nothing.

    The same file again changes nothing. What it holds is run on the agents' machines: whoever may
    import plans can do there what the agents can.
    """
    read = planfile.parse(request.body, media=request.content_type or "", agent=asked.agent)

    def work() -> tuple[int, Any]:
        done = importing.import_plan(
            Project.objects.get(pk=request.auth.project_id),
            read.plan,
            options=ImportOptions(
                mode=asked.mode,
                dry_run=asked.dry_run,
                register=asked.register_,
                allow_missing_needs=asked.allow_missing_needs,
                warnings=read.warnings,
            ),
            actor=actor(request.auth),
            request_id=request.id,
        )
        kept = not (asked.dry_run or done.unchanged)
        return 201 if kept else 200, imported_out(done, dry_run=asked.dry_run)

    return idempotent(request, work)


def imported_out(done: ImportResult, *, dry_run: bool) -> dict[str, Any]:
    counts = dict.fromkeys(map(str, TaskState), 0)
    for row in done.tasks:
        counts[row["state"]] += 1
    plan, tasks = plan_out(done.plan, counts), [plan_task_out(row) for row in done.tasks]
    if dry_run:  # what would be made has no id that anybody could use
        made = set(done.diff.added)
        tasks = [each | ({"id": None} if each["ref"] in made else {}) for each in tasks]
        if len(made) == len(tasks):
            plan["id"] = None
    return {
        "plan": plan,
        "tasks": tasks,
        "warnings": done.warnings,
        "diff": asdict(done.diff),
        "unchanged": done.unchanged,
        "dry_run": dry_run,
    }


@router.get("/plans", auth=PrincipalAuth("tasks:read"), response=schemas.PlanList)
def plans_list(request: PrincipalRequest, asked: Query[schemas.PlanQuery]) -> HttpResponse:
    """List plans, newest first, each with how many tasks are in each state."""
    query = Plan.objects.visible_to(request.auth)
    if asked.state:
        query = query.in_state(*states(asked.state))
    if asked.ref:
        query = query.filter(ref=asked.ref)
    if asked.q:
        query = query.filter(title__icontains=asked.q)
    filters = asked.model_dump(exclude={"limit", "cursor"})
    page = cursors.cut(query, limit=asked.limit, cursor=asked.cursor, filters=filters)
    counts = plan_editing.count_tasks_of(plan.pk for plan in page.rows)
    return answer(listed(page, (plan_out(plan, counts[plan.pk]) for plan in page.rows)))


def states(text: str) -> list[str]:
    asked = text.split(",")
    if unknown := [state for state in asked if state not in PlanState.values]:
        known = ", ".join(PlanState.values)
        raise Invalid("/state", f"'{unknown[0]}' is not a state; the states are {known}.")
    return asked


def visible(request: PrincipalRequest, id: UUID) -> Plan:
    plan = Plan.objects.visible_to(request.auth).filter(pk=id).first()
    if plan is None:
        raise NotFound(f"There is no plan {id} that this token may see.")
    return plan


def tagged(plan: Plan, value: Any) -> HttpResponse:
    response = answer(value)
    response["ETag"] = f'"v{plan.version}"'
    return response


@router.get("/plans/{id}", auth=PrincipalAuth("tasks:read"), response=schemas.PlanWithTasksOut)
def plans_get(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Read one plan with its tasks; an agent sees its own of them."""
    return with_tasks(request, visible(request, id))


def with_tasks(request: PrincipalRequest, plan: Plan) -> HttpResponse:
    who = request.auth
    rows = [
        row
        for row in plan_editing.list_tasks(plan)
        if not who.is_agent or row["agent_id"] == who.agent_id
    ]
    value = {
        "plan": plan_out(plan, plan_editing.count_tasks(plan)),
        "tasks": [plan_task_out(row) for row in rows],
    }
    return tagged(plan, value)


@router.patch("/plans/{id}", auth=PrincipalAuth("plans:write"), response=schemas.PlanOut)
def plans_change(request: PrincipalRequest, id: UUID, body: schemas.PlanPatch) -> HttpResponse:
    """Give a plan another title; `If-Match` names the version that was read."""
    visible(request, id)
    plan = plan_editing.change(
        id,
        title=body.title,
        version=version_asked(request),
        actor=actor(request.auth),
        request_id=request.id,
    )
    return tagged(plan, plan_out(plan, plan_editing.count_tasks(plan)))


@router.post("/plans/{id}/pause", auth=PrincipalAuth("plans:write"), response=schemas.PlanOut)
def plans_pause(
    request: PrincipalRequest, id: UUID, body: Body[schemas.PlanWhyIn | None] = None
) -> HttpResponse:
    """Hand out no more tasks of a plan; what runs goes on."""
    return turned(request, id, plan_editing.pause, PlanState.PAUSED, body)


@router.post("/plans/{id}/resume", auth=PrincipalAuth("plans:write"), response=schemas.PlanOut)
def plans_resume(
    request: PrincipalRequest, id: UUID, body: Body[schemas.PlanWhyIn | None] = None
) -> HttpResponse:
    """Hand out tasks of a plan again."""
    return turned(request, id, plan_editing.resume, PlanState.ACTIVE, body)


@router.post("/plans/{id}/abort", auth=PrincipalAuth("plans:write"), response=schemas.PlanOut)
def plans_abort(
    request: PrincipalRequest, id: UUID, body: Body[schemas.PlanWhyIn | None] = None
) -> HttpResponse:
    """Stop a plan: what runs is told so, the rest is aborted, and what is done stays done."""
    return turned(request, id, aborting.abort, PlanState.ABORTED, body)


def turned(
    request: PrincipalRequest,
    id: UUID,
    verb: Callable[..., list[Plan]],
    to: PlanState,
    body: schemas.PlanWhyIn | None,
) -> HttpResponse:
    """The plan after the verb; one that stands there already stays as it is."""
    visible(request, id)
    reason = body.reason if body else ""
    verb([id], reason=reason, actor=actor(request.auth), request_id=request.id)
    plan = visible(request, id)
    if plan.state != to:
        raise InvalidTransition(
            f"Plan {plan.ref} is {plan.state}; it can't become {to}.",
            current=plan.state,
            allowed=[],
        )
    return tagged(plan, plan_out(plan, plan_editing.count_tasks(plan)))


@router.post(
    "/plans/{id}/confirm",
    auth=Person("escalations:resolve"),
    response=schemas.PlanWithTasksOut,
)
def plans_confirm(request: PrincipalRequest, id: UUID, body: schemas.ConfirmIn) -> HttpResponse:
    """Have commands run that were found in prose, each named as it was shown: all or none.

    Only a person may say so: agents run them. What was confirmed already stays so.
    """
    plan = visible(request, id)
    plan_editing.confirm_commands_by_ref(
        plan, body.commands, actor=actor(request.auth), request_id=request.id
    )
    return with_tasks(request, plan)


@router.post("/plans/{id}/restart", auth=PrincipalAuth("plans:write"), response=schemas.PlanOut)
def plans_restart(
    request: PrincipalRequest, id: UUID, body: Body[RestartIn | None] = None
) -> HttpResponse:
    """Run an aborted or completed plan once more: what is not done begins anew."""
    visible(request, id)
    plan = restarting.restart(
        id,
        carry_over=body.carry_over if body else None,
        actor=actor(request.auth),
        request_id=request.id,
    )
    return tagged(plan, plan_out(plan, plan_editing.count_tasks(plan)))
