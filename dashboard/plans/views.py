"""The list of plans, and one plan with its tasks."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse, reverse_lazy
from django.utils import timezone
from django.views.decorators.http import require_GET

from dashboard import live_updates, query_box, rendering
from dashboard.access import operators_only
from dashboard.dependencies import NeedLink, TaskMark
from dashboard.navigation import Scope, read_scope, requested_project
from dashboard.plans import progress, queries, rows
from dashboard.plans.actions import ACTIONS, allowed_actions
from dashboard.plans.flow_chart import flow
from dashboard.plans.waves import in_the_way
from dashboard.rendering import HtmxRequest
from ledger.models import Plan
from ledger.models.plan import STANDS
from ledger.states import TaskState
from retries.models import Escalation
from retries.renderings import state_queries
from retries.renderings.scope import RenderingScope
from retries.states import EscalationState

CRUMB = {"label": "Plans", "url": reverse_lazy("dashboard:plans")}
SEGMENTS = (
    ("all", "All"),
    ("active", "Active"),
    ("paused", "Paused"),
    ("completed", "Completed"),
    ("aborted", "Aborted"),
)
AGENTS_SHOWN = 3
CELLS_SHOWN = 120  # beyond that the bar says more


@require_GET
@operators_only
def index(request: HtmxRequest) -> HttpResponse:
    """The plans in a state or all, newest first."""
    now = timezone.now()
    key = live_updates.read_live_key(now=now, project=requested_project(request), of=Plan)
    if rendering.is_unchanged(request, key):
        return rendering.unchanged()
    scope = read_scope(request)
    context = {"live_key": key, "now": now, "heading": "Plans", **listing(request, scope)}
    return rendering.respond_with(
        request, "plans/index.html", "plans/_plans.html", context, scope=scope, current="plans"
    )


@require_GET
@operators_only
def by_ref(request: HtmxRequest, ref: str) -> HttpResponse:
    """The way to a plan by what people call it."""
    scope = read_scope(request)
    plan = queries.known_as(ref, scope.project)
    if plan is None:
        raise Http404(f"There is no plan {ref[:129]}.")
    return redirect(reverse("dashboard:plan", args=[plan.pk]) + scope.query)


@require_GET
@operators_only
def detail(request: HtmxRequest, plan_id: UUID) -> HttpResponse:
    """Everything about one plan."""
    now = timezone.now()
    key = live_updates.read_live_key(now=now, row=plan_id, of=Plan)
    if rendering.is_unchanged(request, key):
        return rendering.unchanged()
    plan = queries.one(plan_id)
    if plan is None:
        raise Http404(f"There is no plan {plan_id}.")
    found = told(plan, by_attempts=request.GET.get("order") == "attempts", now=now)
    offers = allowed_actions(plan, found["tally"])
    wanted = ACTIONS.get(request.GET.get("ask", ""))
    context = {
        "live_key": key,
        "now": now,
        "heading": str(plan),
        "title": " · ".join(filter(None, [found["needs_you"], str(plan)[:60]])),
        "crumbs": [CRUMB],
        "plan": plan,
        "offers": offers,
        "asked": wanted if wanted in offers and wanted.question else None,
        **found,
    }
    return rendering.respond_with(
        request,
        "plans/detail.html",
        "plans/_plan.html",
        context,
        scope=read_scope(request),
        current="plans",
    )


# ---- the list


@dataclass(frozen=True, slots=True)
class Segment:
    label: str
    show: str
    count: int
    current: bool


@dataclass(frozen=True, slots=True)
class Line:
    """A plan with its bar, what is not over yet, and the first of its agents."""

    row: Any
    bar: progress.Bar
    counts: list[progress.Count]
    agents: list[str]
    more: int


def listing(request: HtmxRequest, scope: Scope) -> dict[str, Any]:
    text = query_box.clean(request.GET.get("q", ""))
    wanted = request.GET.get("show", "all")
    show = wanted if wanted in STANDS else "all"
    counts = queries.counts(text, scope.project)
    page = queries.listed(
        queries.plans(show, text, scope.project),
        before=query_box.as_id(request.GET.get("before", "")),
        after=query_box.as_id(request.GET.get("after", "")),
    )
    return {
        "title": f"{text} · Plans" if text else "Plans",
        "text": text,
        "show": show,
        "segments": [Segment(label, name, counts[name], name == show) for name, label in SEGMENTS],
        "total": counts[show],
        "page": page,
        "lines": [line_of(row) for row in page.rows],
    }


def line_of(row: Any) -> Line:
    names = [name for name, _ in row.tally.agents.most_common()]
    return Line(
        row,
        progress.bar(row.tally.states),
        progress.counts(row.tally.states),
        names[:AGENTS_SHOWN],
        max(len(names) - AGENTS_SHOWN, 0),
    )


# ---- one


def told(plan: Plan, *, by_attempts: bool, now: datetime) -> dict[str, Any]:
    """How far it got, its tasks in their order, what went wrong, what happened, its runs before."""
    marks, links = queries.marks(plan), queries.links(plan.pk)
    carried = (
        state_queries.find_continued_rows(RenderingScope(plan.project_id, plan))
        if plan.run > 1
        else {}
    )
    failures = queries.failures(plan.pk, carried)
    questions = queries.questions(plan.pk, carried)
    tally = progress.Tally(Counter(m.state for m in marks), Counter(m.agent for m in marks))
    failed = Counter(each.task for each in failures)
    found = progress.patterns(failures, {mark.pk: mark.ref for mark in marks})
    history, activity = queries.told(plan.pk)
    open_ones = [each for each in questions if each.state == EscalationState.OPEN]
    held = in_the_way(marks, links)
    return {
        "tally": tally,
        "agents": tally.agents.most_common(),
        "bar": progress.bar(tally.states),
        "running": tally.states[TaskState.RUNNING],
        "to_abort": tally.total - tally.over - tally.states[TaskState.RUNNING],
        "to_restart": tally.total - tally.states[TaskState.DONE],
        "run_started_at": min(
            (mark.created_at for mark in marks if mark.run == plan.run), default=plan.created_at
        ),
        "sentence": progress.sentence(tally),
        "lasted": progress.lasted(plan, now=now),
        **asked_about(marks, open_ones, held),
        "figures": progress.figures(tally, marks, failed, len(questions), len(open_ones)),
        "flow": flow(marks, failed),
        **in_order(plan, marks, links, held, by_attempts=by_attempts, now=now),
        "patterns": found,
        "failure_count": len(failures),
        "alike": progress.alike(found),
        "proposed": queries.proposed(plan.pk),
        "history": history,
        "activity": activity,
        "runs": [Former(run, progress.bar(run.states)) for run in queries.runs(plan)],
    }


def asked_about(
    marks: list[TaskMark], questions: list[Escalation], held: dict[UUID, list[NeedLink]]
) -> dict[str, Any]:
    """The open questions, the first one to answer, and how many tasks wait for them in the end."""
    asked = {each.task_id for each in questions}
    first = questions[0] if questions else None
    lists = {id(found): found for found in held.values()}  # many tasks share one
    stuck = {key for key, found in lists.items() if any(link.need in asked for link in found)}
    return {
        "question": first,
        "question_key": next((m.key for m in marks if first and m.pk == first.task_id), ""),
        "open_questions": len(questions),
        "needs_you": progress.needs_you(mark for mark in marks if mark.pk in asked),
        "waiting": sum(id(found) in stuck for found in held.values()),
    }


def in_order(
    plan: Plan,
    marks: list[TaskMark],
    links: list[NeedLink],
    held: dict[UUID, list[NeedLink]],
    *,
    by_attempts: bool,
    now: datetime,
) -> dict[str, Any]:
    """Every task as a cell, and the lines of as many as a page can bear, wave by wave."""
    waves = rows.in_waves(marks, links)
    shown = rows.cut(rows.by_attempts(marks) if by_attempts else waves)
    ids = [mark.pk for wave in shown for mark in wave.marks]
    lines = rows.lines(plan, queries.tasks(plan, ids), links, held, now=now)
    return {
        "cells": waves if len(marks) <= CELLS_SHOWN else [],
        "waves": [
            (wave.number, [lines[m.pk] for m in wave.marks if m.pk in lines]) for wave in shown
        ],
        "by_attempts": by_attempts,
        "shown": len(ids),
    }


@dataclass(frozen=True, slots=True)
class Former:
    run: queries.Run
    bar: progress.Bar
