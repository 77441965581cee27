"""Query what a plan's page shows: tasks, needs, failures, questions, events and earlier runs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import (
    Count,
    DateTimeField,
    DurationField,
    ExpressionWrapper,
    F,
    Max,
    Min,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Sum,
)
from django.db.models.expressions import RawSQL
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce, Left, Now

from dashboard.activity import queries as activity_queries
from dashboard.activity.queries import EventEntry
from dashboard.compiled_queries import compiled
from dashboard.dependencies import NeedLink, TaskMark, natural_key
from dashboard.plans.common_failures import TaskFailure
from dashboard.shared_queries import title_of
from dashboard.tasks.queries import LIVE, OUTCOMES_SHOWN, add_outcomes, when
from ledger.journal import since_subject
from ledger.models import Attempt, Event, Failure, MissingNeed, Need, Plan, Task
from ledger.states import FINAL, TaskState
from retries.models import Escalation

MAX_TASKS = 500
MAX_FAILURES = 4 * MAX_TASKS
ACTIVITY_SHOWN = 10
HISTORY_SHOWN = 20
TASKS_SEARCHED = 30  # the recently changed tasks whose events may be among the newest
MESSAGE_LENGTH = 400

# what the row of a task reads: a plan may have 100 rows, and each column takes its time
TASK_COLUMNS = (
    "ref",
    "title",
    "type",
    "state",
    "blocked_reason",
    "attempts",
    "attempt_limit",
    "carries",
    "version",
    "unmet",
    "due_at",
    "abort_requested_at",
    "started_at",
    "completed_at",
    "updated_at",
    "agent__name",
    "agent__paused",
    "agent__breaker__state",
    "dead_letter__closed_as",
)

# a replaced task is shown as its replacement
CURRENT = Q(task__replaced_by=None)


# ---- tasks


def list_task_marks(plan: Plan) -> list[TaskMark]:
    """Return the current tasks of a plan in the order of their refs."""
    marks = (TaskMark(*row) for row in fetch_task_marks(plan))
    return sorted(marks, key=lambda mark: natural_key(mark.ref))


@compiled
def fetch_task_marks(plan: Plan) -> QuerySet[Task, tuple[Any, ...]]:
    rows = Task.objects.current().filter(plan=plan).order_by("id")
    columns = rows.values_list(
        "pk",
        "ref",
        title_of(),
        "state",
        "blocked_reason",
        "attempts",
        "attempt_limit",
        "run",
        "created_at",
        "agent__name",
    )
    return columns[:MAX_TASKS]


def list_tasks(plan: Plan, ids: Sequence[UUID]) -> list[Any]:
    """Return these tasks of a plan with what their rows show, without heavy columns."""
    tasks = add_outcomes(fetch_tasks(tuple(ids)))
    for task in tasks:
        task.plan = plan
    return tasks


@compiled
def fetch_tasks(ids: tuple[UUID, ...]) -> QuerySet[Any]:
    attempts = Attempt.objects.filter(task=OuterRef("pk"))
    length = ExpressionWrapper(
        Coalesce("ended_at", Now(), output_field=DateTimeField()) - F("started_at"),
        output_field=DurationField(),
    )
    worked = attempts.order_by().values("task").annotate(s=Sum(length)).values("s")
    return (
        Task.objects.filter(pk__in=ids)
        .select_related("agent__breaker", "dead_letter")
        .only(*TASK_COLUMNS)
        .annotate(
            last_outcomes=ArraySubquery(
                attempts.order_by("-number").values("outcome")[:OUTCOMES_SHOWN]
            ),
            worked=Subquery(worked),
            running_since=when(TaskState.RUNNING, LIVE.values("started_at")),
            lease_ends_at=when(TaskState.RUNNING, LIVE.values("lease_expires_at")),
        )
    )


def list_proposed_commands(plan_id: UUID) -> list[Any]:
    """Return the open tasks with a `command` found in prose that is not confirmed yet."""
    return sorted(fetch_proposed_commands(plan_id), key=lambda task: natural_key(task.ref))


@compiled
def fetch_proposed_commands(plan_id: UUID) -> QuerySet[Any]:
    rows = Task.objects.current().filter(plan=plan_id).exclude(state__in=FINAL)
    rows = rows.filter(payload__verify__has_key="proposed_command")
    command = KT("payload__verify__proposed_command")
    tasks = rows.annotate(command=command).only("id", "ref", "title", "type", "version")
    return tasks[:MAX_TASKS]


def list_need_links(plan_id: UUID) -> list[NeedLink]:
    """Return the needs of a plan's current tasks, and their needs that are not imported yet."""
    links = [
        NeedLink(task, need, ref or "", state, title or type)
        for task, need, ref, state, title, type in fetch_needs(plan_id)
    ]
    missing = fetch_missing_needs(plan_id)
    return links + [NeedLink(task, None, ref, "", "not imported yet") for task, ref in missing]


@compiled
def fetch_needs(plan_id: UUID) -> QuerySet[Need, tuple[Any, ...]]:
    needs = Need.objects.filter(task__plan=plan_id, task__replaced_by=None).order_by()
    return needs.values_list(
        "task_id", "need_id", "need__ref", "need__state", "need__title", "need__type"
    )


@compiled
def fetch_missing_needs(plan_id: UUID) -> QuerySet[MissingNeed, tuple[Any, ...]]:
    missing = MissingNeed.objects.filter(task__plan=plan_id, task__replaced_by=None)
    return missing.values_list("task_id", "ref")


# ---- failures and questions
#
# `carried` maps tasks of earlier runs to the current tasks that continue their attempts


def list_failures(plan_id: UUID, carried: Mapping[UUID, UUID]) -> list[TaskFailure]:
    """Return the failures of a plan's current and carried tasks, oldest first."""
    rows = fetch_failures(plan_id, tuple(carried))
    return [TaskFailure(carried.get(id, id), *more) for id, *more in rows]


@compiled
def fetch_failures(plan_id: UUID, carried: tuple[UUID, ...]) -> QuerySet[Failure, tuple[Any, ...]]:
    rows = Failure.objects.filter(CURRENT, task__plan=plan_id)
    if carried:
        rows |= Failure.objects.filter(task__in=carried)
    columns = rows.order_by("id").values_list(
        "task_id",
        "type",
        Left("message", MESSAGE_LENGTH),
        "at",
        "grouped__pattern_id",
        "grouped__pattern__template",
    )
    return columns[:MAX_FAILURES]


def list_questions(plan_id: UUID, carried: Mapping[UUID, UUID]) -> list[Escalation]:
    """Return the escalations of a plan's current and carried tasks, oldest first."""
    return fetch_questions(plan_id, tuple(carried))


@compiled
def fetch_questions(plan_id: UUID, carried: tuple[UUID, ...]) -> QuerySet[Escalation]:
    rows = Escalation.objects.filter(CURRENT, task__plan=plan_id)
    if carried:
        rows |= Escalation.objects.filter(task__in=carried)
    return rows.only("id", "task_id", "state", "opened_at").order_by("id")


# ---- events and earlier runs


# an index scan for the plan and one for each recently changed task, instead of a join that would
# sort all events of all tasks
EVENTS = f"""(
    select id from ledger_event where subject_id = %s and id >= {since_subject("%s")}
    order by id desc limit %s
) union (
    select e.id from (
        select id from ledger_task where plan_id = %s order by updated_at desc limit %s
    ) t cross join lateral (
        select id from ledger_event where subject_id = t.id and id >= {since_subject("t.id")}
        order by id desc limit %s
    ) e order by e.id desc limit %s
)"""


def list_events(plan_id: UUID) -> tuple[list[EventEntry], list[EventEntry]]:
    """Return the newest events of the plan itself, and the newest of the plan and its tasks."""
    events = activity_queries.describe_events(fetch_events(plan_id))
    own = [event for event in events if event.event.subject_id == plan_id]
    return own, events[:ACTIVITY_SHOWN]


@compiled
def fetch_events(plan_id: UUID) -> QuerySet[Any]:
    values = (
        plan_id,
        plan_id,
        HISTORY_SHOWN,
        plan_id,
        TASKS_SEARCHED,
        ACTIVITY_SHOWN,
        ACTIVITY_SHOWN,
    )
    rows = Event.objects.filter(pk__in=RawSQL(EVENTS, values))  # noqa: S611
    return activity_queries.with_extras(rows.order_by("-id"))


@dataclass(frozen=True, slots=True)
class PreviousRun:
    """An earlier run of a plan with the states its tasks ended in."""

    number: int
    started_at: datetime
    last_at: datetime
    states: Counter[str]


def list_previous_runs(plan: Plan) -> list[PreviousRun]:
    """Return the runs before the current one, newest first."""
    if plan.run == 1:
        return []
    rows = Task.objects.filter(plan=plan, run__lt=plan.run).order_by()
    runs: dict[int, PreviousRun] = {}
    for number, state, n, first, last in rows.values_list("run", "state").annotate(
        n=Count("*"), first=Min("created_at"), last=Max("updated_at")
    ):
        run = runs.get(number)
        states = (run.states if run else Counter()) + Counter({state: n})
        runs[number] = PreviousRun(
            number,
            min(first, run.started_at) if run else first,
            max(last, run.last_at) if run else last,
            states,
        )
    return [runs[number] for number in sorted(runs, reverse=True)]
