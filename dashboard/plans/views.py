"""Serve a plan's page."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.actions import find_asked, list_allowed
from dashboard.charts.dependencies import NeedLink, TaskMark
from dashboard.charts.targets import read_figures
from dashboard.frame.found_rows import require_row
from dashboard.frame.navigation import read_scope
from dashboard.frame.rendering import PageContext, Visit, compose_page, live_page
from dashboard.lists.shared_queries import list_times
from dashboard.plans import detail_queries, progress, queries, rows
from dashboard.plans.common_failures import count_identical, group_failures
from dashboard.plans.detail_queries import CarriedRow, PreviousRun
from dashboard.plans.file_lines import read_file
from dashboard.plans.flow_chart import draw_flow
from dashboard.plans.listing import PLANS
from dashboard.plans.progress import ProgressBar, TaskCounts
from dashboard.plans.rows import TaskRow, Wave
from dashboard.plans.waves import find_blockers
from ledger.models import Plan
from ledger.states import TaskState
from retries.budgets.reading import list_of_plan
from retries.insight.forecasts import stored
from retries.models import Escalation
from retries.states import EscalationState
from retries.verbs.plans import RESTART, VERBS

MAX_CELLS = 120  # a plan with more tasks gets a bar
TITLE_LENGTH = 60
REF_LENGTH = 129


def by_ref(request: HttpRequest, ref: str) -> HttpResponse:
    scope = read_scope(request)
    plan = require_row(queries.find_plan_by_name(ref, scope.project), "plan", ref[:REF_LENGTH])
    return redirect(reverse("dashboard:plan", args=[plan.pk]) + scope.query)


@dataclass(frozen=True, slots=True)
class Questions:
    """A plan's open questions: their number, the first one, and how many tasks wait for them."""

    count: int
    first: Escalation | None
    first_key: str
    sentence: str
    waiting: int


@dataclass(frozen=True, slots=True)
class TaskList:
    """The rows of the tasks by wave; `cells` has all tasks, unless there are too many."""

    waves: list[tuple[int, list[TaskRow]]]
    cells: list[Wave]
    shown: int


@dataclass(frozen=True, slots=True)
class RunRow:
    run: PreviousRun
    bar: ProgressBar


@live_page("plans/detail.html", "plans/_plan.html", current="plans", of=Plan, row="plan_id")
def detail(visit: Visit, plan_id: UUID) -> PageContext:
    plan = require_row(queries.find_plan(plan_id), "plan", plan_id)
    parameters, now = visit.request.GET, visit.now
    by_attempts = parameters.get("order") == "attempts"
    marks, links = detail_queries.list_task_marks(plan), detail_queries.list_need_links(plan.pk)
    carried_rows = detail_queries.list_carried_rows(plan)
    carried = {each.id: each.task for each in carried_rows}
    failures = detail_queries.list_failures(plan.pk, carried)
    escalations = detail_queries.list_questions(plan.pk, carried)
    counts = TaskCounts(Counter(m.state for m in marks), Counter(m.agent for m in marks))
    failed = Counter(failure.task for failure in failures)
    common = group_failures(failures, {mark.pk: mark.ref for mark in marks})
    history, activity = detail_queries.list_events(plan.pk)
    blockers = find_blockers(marks, links)
    questions = summarize_questions(marks, escalations, blockers)
    # a plan can restart only after its running tasks have ended
    can_restart = counts.states[TaskState.DONE] < counts.total == counts.over
    allowed = list_allowed(VERBS, plan)
    actions = [verb for verb in allowed if verb is not RESTART or can_restart]
    return compose_page(
        title=" · ".join(filter(None, [questions.sentence, str(plan)[:TITLE_LENGTH]])),
        heading=str(plan),
        crumbs=[PLANS.crumb],
        list_steps=PLANS.find_steps(visit, plan.pk, with_shift=True),
        plan=plan,
        counts=counts,
        actions=actions,
        # the action whose question the page shows to a browser without scripts
        asked=find_asked(visit.request, actions),
        bar=progress.build_bar(counts.states),
        agents=counts.agents.most_common(),
        running=counts.states[TaskState.RUNNING],
        to_abort=counts.total - counts.over - counts.states[TaskState.RUNNING],
        to_restart=counts.total - counts.states[TaskState.DONE],
        run_started_at=min(
            (mark.created_at for mark in marks if mark.run == plan.run), default=plan.created_at
        ),
        sentence=progress.describe_open_tasks(counts),
        duration=progress.describe_duration(plan),
        forecast=progress.describe_forecast(stored.describe(plan, plan.forecast)),
        questions=questions,
        figures=progress.build_figures(counts, marks, failed, len(escalations), questions.count),
        times=list_times(plan),
        targets=read_figures(plan.task_target_figure),
        flow=draw_flow(marks, failed),
        tasks=list_tasks(
            plan, marks, links, blockers, carried_rows, by_attempts=by_attempts, now=now
        ),
        by_attempts=by_attempts,
        failures=common,
        failure_count=len(failures),
        identical=count_identical(common),
        proposed=[mark for mark in marks if mark.command],
        history=history,
        activity=activity,
        runs=[
            RunRow(run, progress.build_bar(run.states))
            for run in detail_queries.list_previous_runs(plan)
        ],
        file=read_file(plan, marks),
        budgets=list_of_plan(plan, now=now),
    )


def summarize_questions(
    marks: list[TaskMark], escalations: list[Escalation], blockers: dict[UUID, list[NeedLink]]
) -> Questions:
    open_ones = [each for each in escalations if each.state == EscalationState.OPEN]
    asking = {each.task_id for each in open_ones}
    first = open_ones[0] if open_ones else None
    # many tasks share one list of blockers: search each list once
    lists = {id(links): links for links in blockers.values()}
    waiting = {key for key, links in lists.items() if any(link.need in asking for link in links)}
    return Questions(
        count=len(open_ones),
        first=first,
        first_key=next((m.key for m in marks if first and m.pk == first.task_id), ""),
        sentence=progress.describe_open_questions(mark for mark in marks if mark.pk in asking),
        waiting=sum(id(links) in waiting for links in blockers.values()),
    )


def list_tasks(
    plan: Plan,
    marks: list[TaskMark],
    links: list[NeedLink],
    blockers: dict[UUID, list[NeedLink]],
    carried: list[CarriedRow],
    *,
    by_attempts: bool,
    now: datetime,
) -> TaskList:
    waves = rows.split_into_waves(marks, links)
    shown = rows.limit_rows(rows.sort_by_attempts(marks) if by_attempts else waves)
    ids = [mark.pk for wave in shown for mark in wave.marks]
    tasks = detail_queries.list_tasks(plan, ids, carried)
    by_id = rows.build_rows(plan, tasks, links, blockers, now=now)
    return TaskList(
        waves=[
            (wave.number, [by_id[mark.pk] for mark in wave.marks if mark.pk in by_id])
            for wave in shown
        ],
        cells=waves if len(marks) <= MAX_CELLS else [],
        shown=len(ids),
    )
