"""Query the rows of a plan's page: tasks, needs, failures, questions, events and earlier runs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import (
    Case,
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
    TextField,
    When,
)
from django.db.models.expressions import RawSQL
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce, Left, Now

from dashboard.activity import queries as activity_queries
from dashboard.activity.queries import EventEntry
from dashboard.charts.dependencies import NeedLink, TaskMark, natural_key
from dashboard.lists.compiled_queries import compiled
from dashboard.lists.shared_queries import title_of
from dashboard.plans.common_failures import TaskFailure
from dashboard.tasks.queries import LIVE, OUTCOMES_SHOWN, when
from ledger.database import sql
from ledger.journal import since_subject
from ledger.models import Attempt, Event, Failure, Plan, Task
from ledger.states import FINAL, TaskState
from retries.models import Escalation
from retries.tasks.outside_files import FIELD

MAX_TASKS = 500
MAX_FAILURES = 4 * MAX_TASKS
ACTIVITY_SHOWN = 10
HISTORY_SHOWN = 20
TASKS_SEARCHED = 30  # the recently changed tasks whose events may be among the newest
MESSAGE_LENGTH = 400

# the columns that a task's row reads: a plan may have 100 rows, and each column costs time
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
    "not_before",
    "abort_requested_at",
    "started_at",
    "completed_at",
    "updated_at",
    "agent__name",
    "agent__paused",
    "pool__name",
    "pool__paused",
    "agent__breaker__state",
    "dead_letter__closed_as",
)

PROPOSES = Q(payload__verify__has_key="proposed_command")
PROPOSED_COMMAND = KT("payload__verify__proposed_command")
# a replaced task is shown as its replacement
CURRENT = Q(task__replaced_by=None)


# ---- tasks


def list_task_marks(plan: Plan) -> list[TaskMark]:
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
        "version",
        Case(When(PROPOSES & ~Q(state__in=FINAL), then=PROPOSED_COMMAND), output_field=TextField()),
    )
    return columns[:MAX_TASKS]


def list_tasks(plan: Plan, ids: Sequence[UUID], carried: "Sequence[CarriedRow]") -> list[Any]:
    earlier: dict[UUID, list[CarriedRow]] = {}
    for each in carried:
        earlier.setdefault(each.task, []).append(each)
    tasks = fetch_tasks(tuple(ids))
    for task in tasks:
        task.plan = plan
        # A task's outcomes begin with those of its earlier runs.
        before = [outcome for row in earlier.get(task.pk, ()) for outcome in row.outcomes]
        task.outcomes = [*before, *task.last_outcomes[::-1]][-OUTCOMES_SHOWN:]
    return tasks


@dataclass(frozen=True, slots=True)
class CarriedRow:
    """A row of an earlier run whose attempts a current task continues, with their outcomes."""

    id: UUID
    task: UUID
    outcomes: Sequence[str | None]


CARRIED = """with recursive lineage as (
    select id as task_id, id, carries_id, 0 as depth from ledger_task
    where plan_id = %(plan)s and replaced_by_id is null and carries_id is not null
    union all
    select l.task_id, t.id, t.carries_id, l.depth + 1
    from lineage l join ledger_task t on t.id = l.carries_id
)
select l.task_id, l.id, array(
    select a.outcome from ledger_attempt a where a.task_id = l.id order by a.number
) as outcomes
from lineage l where l.depth > 0 order by l.task_id, l.depth desc"""


def list_carried_rows(plan: Plan) -> list[CarriedRow]:
    """Return the rows of earlier runs that current tasks continue, the oldest run first."""
    if plan.run == 1:
        return []
    rows = sql.run(CARRIED, plan=plan.pk)
    return [CarriedRow(row["id"], row["task_id"], row["outcomes"]) for row in rows]


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
        .select_related("agent__breaker", "pool", "dead_letter")
        .only(*TASK_COLUMNS)
        .annotate(
            last_outcomes=ArraySubquery(
                attempts.order_by("-number").values("outcome")[:OUTCOMES_SHOWN]
            ),
            worked=Subquery(worked),
            outside=Subquery(
                attempts.filter(decision__has_key=FIELD)
                .order_by("-number")
                .values(f"decision__{FIELD}__count")[:1]
            ),
            running_since=when(TaskState.RUNNING, LIVE.values("started_at")),
            lease_ends_at=when(TaskState.RUNNING, LIVE.values("lease_expires_at")),
        )
    )


def list_proposed_commands(plan_id: UUID) -> list[Any]:
    """Return the open tasks with a `command` found in prose that is not confirmed yet."""
    return sorted(fetch_proposed_commands(plan_id), key=lambda task: natural_key(task.ref))


@compiled
def fetch_proposed_commands(plan_id: UUID) -> QuerySet[Any]:
    rows = Task.objects.current().filter(PROPOSES, plan=plan_id).exclude(state__in=FINAL)
    tasks = rows.annotate(command=PROPOSED_COMMAND).only("id", "ref", "title", "type", "version")
    return tasks[:MAX_TASKS]


def list_need_links(plan_id: UUID) -> list[NeedLink]:
    """Return the needs of a plan's current tasks, and their needs that are not imported yet."""
    rows = sql.run(NEEDS, plan=plan_id)
    return [
        NeedLink(row["task_id"], row["need_id"], row["ref"] or "", row["state"], row["text"])
        for row in rows
    ]


NEEDS = """select n.task_id, n.need_id, d.ref, d.state,
    coalesce(nullif(d.title, ''), d.type) as text
from ledger_task t join ledger_need n on n.task_id = t.id join ledger_task d on d.id = n.need_id
where t.plan_id = %(plan)s and t.replaced_by_id is null
union all
select m.task_id, null, m.ref, '', 'not imported yet'
from ledger_task t join ledger_missingneed m on m.task_id = t.id
where t.plan_id = %(plan)s and t.replaced_by_id is null"""


# ---- failures and questions
#
# `carried` maps tasks of earlier runs to the current tasks that continue their attempts


def list_failures(plan_id: UUID, carried: Mapping[UUID, UUID]) -> list[TaskFailure]:
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
    """Return the earlier runs, newest first."""
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
