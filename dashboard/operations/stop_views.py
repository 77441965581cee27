"""Stop an agent: pause it, abort what it runs, and hand over what waits for it."""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.db import transaction
from django.db.models import Count
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse

from dashboard.agents.targets import list_targets
from dashboard.frame.access import refuse
from dashboard.frame.navigation import read_scope
from dashboard.frame.rendering import (
    Crumb,
    HtmxRequest,
    back_to,
    begin_visit,
    compose_page,
    respond,
)
from dashboard.frame.toasts import SHOWN_S, add_message
from dashboard.lists.query_box import term
from dashboard.lists.selection import read_selection
from dashboard.operations.start_views import describe_start
from ledger.access.reasons import require_reason
from ledger.authorization.permissions import may
from ledger.errors import Invalid, Refusal
from ledger.journal import Stamp, stamp_of
from ledger.models import Agent, Instruction, Task
from ledger.states import TaskState
from retries.models import Operation
from retries.operations.ending import undo_operation
from retries.operations.starting import NothingToChange, start_operation, undo_time
from retries.verbs import agents, instructions, tasks

PARTS = ("pause", "abort", "tasks", "instructions")
PERMISSIONS = (
    agents.PAUSE.permission,
    tasks.HAND_OVER.permission,
    instructions.HAND_OVER.permission,
    "ledger.add_instruction",
    "retries.add_operation",
)


@dataclass(frozen=True, slots=True)
class Held:
    """The numbers of an agent's running and other open tasks, and of its unread instructions."""

    running: int
    waiting: int
    instructions: int


def stop(request: HtmxRequest, agent_id: UUID) -> HttpResponse:
    agent = get_object_or_404(Agent.objects.select_related("project"), pk=agent_id)
    if missing := find_missing(request, agent):
        return refuse(request, missing, by_script=False)
    if request.method != "POST":
        return show(request, agent)
    try:
        return carry_out(request, agent)
    except Refusal as refusal:
        return show(request, agent, problem=refusal.detail)


def find_missing(request: HtmxRequest, agent: Agent) -> str:
    """Return the first permission that the person lacks to stop an agent, or an empty string."""
    missing = (each for each in PERMISSIONS if not may(request.user, each, agent.project_id))
    return next(missing, "")


def show(request: HtmxRequest, agent: Agent, *, problem: str = "") -> HttpResponse:
    visit = begin_visit(request, current="agents")
    targets = list_targets({agent.project_id}, now=visit.now, besides=agent.pk)
    best = next((each.name for each in targets if not each.is_held), "")
    title = f"Stop {agent.name} and hand over its work"
    query = visit.scope.query
    page = compose_page(
        title=title,
        heading="Stop",
        crumbs=(
            Crumb("Agents", reverse("dashboard:agents") + query),
            Crumb(agent.name, reverse("dashboard:agent", args=[agent.pk]) + query),
        ),
        status_code=422 if problem else 200,
        agent=agent,
        held=count_held(agent),
        targets=targets,
        chosen=request.POST.get("agent", best),  # the agent that gets the work
        ticked=[part for part in PARTS if not problem or part in request.POST],
        reason=request.POST.get("reason", ""),
        problem=problem,
        undo_s=int(undo_time().total_seconds()),
    )
    return respond(visit, "agents/stop.html", "agents/_stop.html", page)


def count_held(agent: Agent) -> Held:
    found = tasks.HAND_OVER.narrow(Task.objects.filter(agent=agent)).order_by()
    counts = dict(found.values_list("state").annotate(n=Count("pk")))
    unread = instructions.HAND_OVER.narrow(Instruction.objects.filter(agent=agent))
    running = counts.pop(TaskState.RUNNING, 0)
    return Held(running, sum(counts.values()), unread.count())


def carry_out(request: HtmxRequest, agent: Agent) -> HttpResponse:
    """Do the ticked parts and offer one undo for all; raise Invalid without a part or target."""
    ticked, scope = {part for part in PARTS if part in request.POST}, read_scope(request)
    if not ticked:
        raise Invalid("/pause", "Tick at least one part. Nothing changed.")
    target = (
        request.POST.get("agent", "").replace("\0", "")
        if ticked & {"tasks", "instructions"}
        else None
    )
    others = Agent.objects.filter(project=agent.project_id).exclude(pk=agent.pk)
    if target is not None and not others.filter(name=target).exists():
        raise Invalid("/agent", "Choose the agent that gets the work. Nothing changed.")
    reason, stamp = request.POST.get("reason", ""), stamp_of(request)
    if "abort" in ticked:
        require_reason("task.abort", [agent.project_id], reason)
    with transaction.atomic():  # all of it, or nothing
        # pause first, so that the agent's claims can't change the counts
        paused = "pause" in ticked and agents.PAUSE.change([agent.pk], {"reason": reason}, stamp)
        held = count_held(agent)
        started = start_parts(agent, ticked, target=target or "", reason=reason, stamp=stamp)
    if not paused and not started:
        messages.warning(request, f"Nothing changed: nothing runs or waits for {agent.name}.")
        return redirect(reverse("dashboard:agent", args=[agent.pk]) + scope.query)
    undo = [("id", str(row.pk)) for row in started] + ([("resume", "yes")] if paused else [])
    address = reverse("dashboard:agent_stop_undo", args=[agent.pk])
    said = [f"{agent.name} is paused."] if paused else []
    seconds = int(undo_time().total_seconds())
    add_message(
        request,
        " ".join([*said, *(describe_part(row, held.running) for row in started)]),
        undo=f"{address}?{urlencode([*scope.params.items(), *undo])}" if seconds else "",
        follow=reverse("dashboard:operation", args=[started[0].pk]) + scope.query
        if started
        else "",
        shown_s=seconds or SHOWN_S,
    )
    return redirect(reverse("dashboard:agent", args=[agent.pk]) + scope.query)


def describe_part(operation: Operation, running: int) -> str:
    if operation.verb != tasks.HAND_OVER.name:
        return describe_start(operation)
    running = running if operation.options["abort"] else 0
    ways = {"aborted": running, "handed over": operation.total - running}
    there = {way: number for way, number in ways.items() if number > 0}
    done = " or ".join(f"{way} ({n:,})" if len(there) > 1 else way for way, n in there.items())
    return describe_start(operation, done=done)


def start_parts(
    agent: Agent, ticked: Collection[str], *, target: str, reason: str, stamp: Stamp
) -> list[Operation]:
    """Start the operations on the agent's tasks and instructions that change any."""
    of, started = {"of": str(agent.pk), "agent": target}, []
    wanted = []
    if {"abort", "tasks"} & {*ticked}:
        abort, to = "yes" if "abort" in ticked else "", target if "tasks" in ticked else ""
        wanted.append((tasks.HAND_OVER, of | {"agent": to, "abort": abort}))
    if "instructions" in ticked:
        wanted.append((instructions.HAND_OVER, of))
    for verb, options in wanted:
        rows = verb.model._default_manager.filter(agent=agent)
        query = term("agent", agent.name)
        # A part that would change nothing starts no operation.
        with suppress(NothingToChange):
            started.append(
                start_operation(
                    verb.name, rows, options=options, query=query, reason=reason, stamp=stamp
                )
            )
    return started


def undo(request: HtmxRequest, agent_id: UUID) -> HttpResponse:
    agent = get_object_or_404(Agent, pk=agent_id)
    if missing := find_missing(request, agent):
        return refuse(request, missing, by_script=False)
    own, stamp = Operation.objects.filter(options__of=str(agent.pk)), stamp_of(request)
    resumes = "resume" in request.GET
    try:
        # All parts are undone, or none.
        with transaction.atomic():
            for id in read_selection(request.GET):
                undo_operation(id, among=own, stamp=stamp)
            if resumes:
                agents.RESUME.change([agent.pk], {}, stamp)
    except Refusal as refusal:
        messages.warning(request, f"Nothing was undone. {refusal.detail}")
    else:
        again = f" {agent.name} is resumed." if resumes else ""
        messages.success(request, f"Undone.{again} No task and no instruction was changed.")
    page = reverse("dashboard:agent", args=[agent.pk]) + read_scope(request).query
    return redirect(back_to(request, otherwise=page))
