"""Plans over HTTP: import them from a file, read, edit, pause, abort, and restart them."""

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from django.http import HttpResponse
from ninja import Body, Query, Router

from ledger import planfile
from ledger.access.reasons import require_reason
from ledger.api.auth import PrincipalAuth, PrincipalRequest, stamp_of
from ledger.api.parameters import find_plan, parse_if_match, parse_states
from ledger.api.reading import list_response
from ledger.api.responses import json_response, respond_once
from ledger.authorization.permissions import may
from ledger.database import sql
from ledger.errors import InvalidTransition
from ledger.models import Plan, PlanState, Project
from ledger.planfile.model import MOST_BYTES, shorten_title
from ledger.planfile.preview import build_preview
from ledger.plans import editing
from ledger.plans.import_diff import ImportOptions, ImportResult
from ledger.schemas import plans as schemas
from ledger.schemas.plans import parse_pairs, plan_out
from ledger.schemas.shared import page_of
from ledger.secrets.redaction import redacted
from ledger.states import TaskState
from retries.api.escalations import PersonAuth
from retries.budgets import editing as budgets
from retries.budgets.amounts import parse_amount
from retries.budgets.editing import BudgetSpec
from retries.insight.forecasts.stored import read_forecast
from retries.plans import aborting, importing, restarting
from retries.schemas.operator_actions import RestartIn

router = Router(tags=["plans"])

# `planfile` reads the body of an import, so ninja can't describe it.
YAML = """ref: 03-01
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
    "application/yaml": {"schema": {"type": "string"}, "example": YAML},
    "application/xml": {"schema": {"type": "string"}, "example": XML},
    "text/markdown": {"schema": {"type": "string"}, "example": MARKDOWN},
}


@router.post(
    "/plans",
    auth=PrincipalAuth("plans:write", body_bytes=MOST_BYTES),
    response={201: schemas.ImportedOut, 200: schemas.ImportedOut},
    openapi_extra={"x-idempotent": True, "requestBody": {"required": True, "content": CONTENT}},
)
def plans_create(request: PrincipalRequest, query: Query[schemas.ImportQuery]) -> HttpResponse:
    """Import a plan from a JSON, YAML, XML, or Markdown file, completely or not at all.

    Importing the same file again changes nothing. Agents run the commands in a plan, so anyone who
    can import plans can do whatever the agents can do on their machines.
    """
    parsed = planfile.parse(
        request.body,
        media=request.content_type or "",
        agent=query.agent,
        ref=query.ref,
        tag=query.tag,
        allow_missing_needs=query.allow_missing_needs,
    )

    work = sql.atomic(import_parsed) if query.budget else import_parsed
    return respond_once(request, lambda: work(request, query, parsed))


def import_parsed(
    request: PrincipalRequest, query: schemas.ImportQuery, parsed: planfile.ParsedPlan
) -> tuple[int, dict[str, Any]]:
    result = importing.import_plan(
        Project.objects.get(pk=request.auth.project_id),
        parsed.plan,
        options=ImportOptions(
            mode=query.mode,
            dry_run=query.dry_run,
            only_proven=query.ticks == "proven",
            register=query.register_,
            allow_missing_needs=query.allow_missing_needs,
            changes_budgets=may(request.auth, "escalations:resolve"),
            warnings=parsed.warnings,
            pairs=parse_pairs(query.pairs),
        ),
        stamp=stamp_of(request),
    )
    if query.budget and not query.dry_run:
        limit = parse_amount(query.budget, pointer="/budget")
        spec = BudgetSpec(unit=limit.unit, amount=limit.number, at_limit=query.at_limit)
        # Only a person changes a budget that is there.
        budgets.set_budget(
            budgets.scope_of_plan(result.plan),
            spec,
            only_new=not may(request.auth, "escalations:resolve"),
            stamp=stamp_of(request),
        )
    changed = not (query.dry_run or result.unchanged)
    body = imported_out(result, dry_run=query.dry_run)
    if query.dry_run:
        rows = build_preview(
            result.file, text=parsed.text, warnings=result.warnings, changes=result.diff.effects
        )
        body["preview"] = [asdict(row) for row in rows]
    return 201 if changed else 200, body


def imported_out(result: ImportResult, *, dry_run: bool) -> dict[str, Any]:
    counts = dict.fromkeys(map(str, TaskState), 0)
    for row in result.tasks:
        counts[row["state"]] += 1
    plan, tasks = (
        plan_out(result.plan, counts),
        [schemas.PlanTaskOut.write(row) for row in result.tasks],
    )
    if dry_run:  # new rows were rolled back, so their ids mean nothing
        added = set(result.diff.added)
        tasks = [task | ({"id": None} if task["ref"] in added else {}) for task in tasks]
        if len(added) == len(tasks):
            plan["id"] = None
    return {
        "plan": plan,
        "tasks": tasks,
        "warnings": result.warnings,
        "diff": asdict(result.diff),
        "matches": [asdict(match) for match in result.matches],
        "ticked": [row["ref"] for row in result.tasks if row["id"] in result.ticked],
        "lines": describe_lines(result),
        "preview": [],
        "unchanged": result.unchanged,
        "dry_run": dry_run,
    }


def describe_lines(result: ImportResult) -> list[dict[str, Any]]:
    known = {row["ref"] for row in result.tasks}
    return [
        {
            "line": each.line,
            "became": each.became,
            "ref": each.ref if each.ref in known else None,
            "text": shorten_title(each.text),
            "note": redacted(each.note),
            "box": asdict(each.box) if each.box else None,
            "tick": each.line in result.ticks,
        }
        for each in result.lines
    ]


# ---- read


@router.get("/plans", auth=PrincipalAuth("tasks:read"), response=page_of(schemas.PlanOut))
def plans_list(request: PrincipalRequest, query: Query[schemas.PlanQuery]) -> HttpResponse:
    """List plans with the number of tasks in each state, newest first."""
    rows = Plan.objects.visible_to(request.auth)
    if query.state:
        rows = rows.in_state(*parse_states(query.state, PlanState))
    if query.ref:
        rows = rows.filter(ref=query.ref)
    if query.q:
        rows = rows.filter(title__icontains=query.q)
    return list_response(rows, query, write_plans)


def write_plans(plans: list[Plan]) -> Iterator[dict[str, Any]]:
    counts = editing.count_tasks_of(plan.pk for plan in plans)
    return (plan_out(plan, counts[plan.pk]) for plan in plans)


@router.get("/plans/{id}", auth=PrincipalAuth("tasks:read"), response=schemas.PlanWithTasksOut)
def plans_get(request: PrincipalRequest, id: str) -> HttpResponse:
    """Get a plan with its tasks; an agent sees only its own tasks."""
    return plan_with_tasks_response(request, find_plan(request.auth, id))


@router.get(
    "/plans/{id}/forecast", auth=PrincipalAuth("tasks:read"), response=schemas.PlanForecastOut
)
def plans_get_forecast(request: PrincipalRequest, id: str) -> HttpResponse:
    """Get when a plan will be done and what it will cost, with intervals that hold 80%.

    The clock computes it each minute from the attempts of like tasks, the plan's dependencies,
    and what its agents and people are known to wait for. `reason` says why it has no interval.
    """
    plan = find_plan(request.auth, id)
    found = read_forecast(plan)
    return json_response(schemas.PlanForecastOut.write(found, plan=str(plan.pk)))


def plan_response(plan: Plan) -> HttpResponse:
    return json_response(plan_out(plan, editing.count_tasks(plan)), version=plan.version)


def plan_with_tasks_response(request: PrincipalRequest, plan: Plan) -> HttpResponse:
    principal = request.auth
    rows = [
        row
        for row in editing.list_tasks(plan)
        if not principal.is_agent or row["agent_id"] == principal.agent_id
    ]
    body = {
        "plan": plan_out(plan, editing.count_tasks(plan)),
        "tasks": [schemas.PlanTaskOut.write(row) for row in rows],
    }
    return json_response(body, version=plan.version)


# ---- change


@router.patch("/plans/{id}", auth=PrincipalAuth("plans:write"), response=schemas.PlanOut)
def plans_update(request: PrincipalRequest, id: str, body: schemas.PlanPatch) -> HttpResponse:
    """Change a plan's title, required evidence, start time, or file exclusion.

    The `If-Match` header must contain the ETag of the version you read.
    """
    plan = find_plan(request.auth, id)
    plan = editing.change(
        plan.pk,
        title=body.title,
        evidence=body.evidence,
        not_before=body.not_before,
        exclusive_files=body.exclusive_files,
        version=parse_if_match(request),
        stamp=stamp_of(request),
    )
    return plan_response(plan)


@router.post("/plans/{id}/pause", auth=PrincipalAuth("plans:write"), response=schemas.PlanOut)
def plans_pause(
    request: PrincipalRequest, id: str, body: Body[schemas.PlanReasonIn | None] = None
) -> HttpResponse:
    """Pause a plan: agents get no more of its tasks, and running tasks continue."""
    return move_plan(request, id, editing.pause, PlanState.PAUSED, body)


@router.post("/plans/{id}/resume", auth=PrincipalAuth("plans:write"), response=schemas.PlanOut)
def plans_resume(
    request: PrincipalRequest, id: str, body: Body[schemas.PlanReasonIn | None] = None
) -> HttpResponse:
    """Resume a paused plan."""
    return move_plan(request, id, editing.resume, PlanState.ACTIVE, body)


@router.post("/plans/{id}/abort", auth=PrincipalAuth("plans:write"), response=schemas.PlanOut)
def plans_abort(
    request: PrincipalRequest, id: str, body: Body[schemas.PlanReasonIn | None] = None
) -> HttpResponse:
    """Abort a plan.

    Running tasks are asked to stop, all other unfinished tasks are aborted, and finished tasks
    stay as they are.
    """
    require_reason("plan.abort", [request.auth.project_id], body.reason if body else "")
    return move_plan(request, id, aborting.abort, PlanState.ABORTED, body)


def move_plan(
    request: PrincipalRequest,
    id: str,
    move: Callable[..., list[Plan]],
    to: PlanState,
    body: schemas.PlanReasonIn | None,
) -> HttpResponse:
    # A plan that is already in the state stays unchanged.
    plan = find_plan(request.auth, id)
    reason = body.reason if body else ""
    move([plan.pk], reason=reason, stamp=stamp_of(request))
    plan.refresh_from_db()
    if plan.state != to:
        raise InvalidTransition(
            f"Plan {plan.ref} is {plan.state} and can't become {to}.",
            current=plan.state,
            allowed=[],
        )
    return plan_response(plan)


@router.post(
    "/plans/{id}/confirm", auth=PersonAuth("escalations:resolve"), response=schemas.PlanWithTasksOut
)
def plans_confirm(request: PrincipalRequest, id: str, body: schemas.ConfirmIn) -> HttpResponse:
    """Confirm proposed commands, so that agents run them: all of them or none.

    Send each command exactly as `proposed_command` shows it. Only a person may do this, because
    agents run the commands. Commands that are already confirmed stay so.
    """
    plan = find_plan(request.auth, id)
    editing.confirm_commands_by_ref(plan, body.commands, stamp=stamp_of(request))
    return plan_with_tasks_response(request, plan)


@router.post("/plans/{id}/restart", auth=PrincipalAuth("plans:write"), response=schemas.PlanOut)
def plans_restart(
    request: PrincipalRequest, id: str, body: Body[RestartIn | None] = None
) -> HttpResponse:
    """Restart an aborted or completed plan: its unfinished tasks start over."""
    plan = find_plan(request.auth, id)
    plan = restarting.restart(
        plan.pk, carry_over=body.carry_over if body else None, stamp=stamp_of(request)
    )
    return plan_response(plan)
