"""What the Plans pages ask the database: which there are, how far they got, one with its tasks."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode
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
from django.urls import reverse

from dashboard.activity import queries as activity_queries
from dashboard.dependencies import NeedLink, TaskMark, natural_key
from dashboard.pagination import Page, read_page
from dashboard.plans.progress import Failed, Tally
from dashboard.query_box import as_id
from dashboard.shared_queries import (
    PLAN_ESCALATIONS,
    CountOf,
    hash_of,
    of_project,
    title_of,
)
from dashboard.tasks.queries import HEAVY, LIVE, OUTCOMES_SHOWN, add_outcomes, when
from ledger.models import Attempt, Event, Failure, MissingNeed, Need, Plan, Project, Task
from ledger.models.plan import STANDS
from ledger.optional_cache import figure
from ledger.states import FINAL, TaskState
from retries.models import Escalation

MOST_TASKS = 500  # of one plan
ACTIVITY_SHOWN = 10
HISTORY_SHOWN = 20
LAST_CHANGED = 30  # tasks whose journals are looked through for it
MESSAGE = 400
HEAVY_OF_PLANS = ("source", "objective")
# a task that another one has taken the place of is told of by that one
CURRENT = Q(task__replaced_by=None)


# ---- the list


def plans(show: str, text: str, project: Project | None) -> QuerySet[Plan]:
    """Those in a state, or all; each word of the text stands in ref or title."""
    every = Plan.objects.in_state(show) if show in STANDS else Plan.objects.all()
    rows = of_project(every, project)
    for word in text.split():
        rows = rows.filter(Q(ref__icontains=word) | Q(title__icontains=word))
    return rows


def listed(rows: QuerySet[Plan], *, before: UUID | None, after: UUID | None) -> Page[Any]:
    """A page of plans, newest first, each with its `tally` and how many questions are open."""
    shown = rows.select_related("project").defer(*HEAVY_OF_PLANS)
    found = read_page(
        shown.annotate(
            questions=CountOf(PLAN_ESCALATIONS.values("pk")),
            question=Subquery(PLAN_ESCALATIONS.order_by("id").values("pk")[:1]),
        ),
        before=before,
        after=after,
    )
    counted = tallies(row.pk for row in found.rows)
    for row in found.rows:
        row.tally = counted.get(row.pk) or Tally()
    return found


def tallies(ids: Iterable[UUID]) -> dict[UUID, Tally]:
    """Counted by one statement, however many plans there are."""
    rows = Task.objects.current().filter(plan__in=list(ids)).order_by()
    found: dict[UUID, Tally] = {}
    for plan, state, agent, n in rows.values_list("plan", "state", "agent__name").annotate(
        n=Count("*")
    ):
        tally = found.setdefault(plan, Tally())
        tally.states[state] += n
        tally.agents[agent] += n
    return found


def counts(text: str, project: Project | None) -> dict[str, int]:
    """How many there are in each state."""

    def count() -> dict[str, int]:
        every = {state.value: Count("pk", filter=which) for state, which in STANDS.items()}
        found: dict[str, int] = plans("all", text, project).aggregate(all=Count("pk"), **every)
        return found

    return figure(f"plans:{project.id if project else 'all'}:{hash_of(text)}", count)


REF = re.compile(r"[A-Za-z0-9.]+-[A-Za-z0-9.]+(?P<task>:\S+)?")


def named(text: str, project: Project | None) -> str:
    """The address of the one plan or current task of that ref; nothing where there is none, and the
    list of plans where several projects have one."""
    match = REF.fullmatch(text)
    if match is None:
        return ""
    if match["task"]:
        rows = of_project(Task.objects.current().filter(ref=text), project)
        tasks = list(rows.order_by("-run").values_list("pk", flat=True)[:1])
        return reverse("dashboard:task", args=tasks) if tasks else ""
    plans = list(
        of_project(Plan.objects.filter(ref=text), project).values_list("pk", flat=True)[:2]
    )
    if len(plans) > 1:
        return f"{reverse('dashboard:plans')}?{urlencode({'q': text})}"
    return reverse("dashboard:plan", args=plans) if plans else ""


def exists(plan_id: UUID) -> bool:
    return Plan.objects.filter(pk=plan_id).exists()


# ---- one


def one(plan_id: UUID) -> Plan | None:
    rows = Plan.objects.filter(pk=plan_id).select_related("project").defer("source")
    return rows.first()


def known_as(name: str, project: Project | None) -> Plan | None:
    """The plan of that id, or the newest of that ref, in a project or in all."""
    plans = of_project(Plan.objects.select_related("project"), project).order_by("-id")
    id = as_id(name)
    return plans.filter(pk=id).first() if id else plans.filter(ref=name).first()


def marks(plan: Plan) -> list[TaskMark]:
    """Its current tasks, in the order of their refs."""
    rows = Task.objects.current().filter(plan=plan).order_by("id")
    found = rows.values_list(
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
    return sorted(
        (TaskMark(*row) for row in found[:MOST_TASKS]), key=lambda each: natural_key(each.ref)
    )


def proposed(plan_id: UUID) -> list[Any]:
    """Its tasks with a `command` that was found in prose and that nobody has said to run yet."""
    rows = Task.objects.current().filter(plan=plan_id).exclude(state__in=FINAL)
    rows = rows.filter(payload__verify__has_key="proposed_command")
    command = KT("payload__verify__proposed_command")
    found = rows.annotate(command=command).only("id", "ref", "title", "type", "version")
    return sorted(found[:MOST_TASKS], key=lambda each: natural_key(each.ref))


def tasks(plan: Plan, ids: Sequence[UUID]) -> list[Any]:
    """These tasks of it with what their lines show, without their heavy columns."""
    attempts = Attempt.objects.filter(task=OuterRef("pk"))
    took = ExpressionWrapper(
        Coalesce("ended_at", Now(), output_field=DateTimeField()) - F("started_at"),
        output_field=DurationField(),
    )
    worked = attempts.order_by().values("task").annotate(s=Sum(took)).values("s")
    heavy = (*HEAVY, "dead_letter__payload", "dead_letter__error", "dead_letter__note")
    rows = (
        Task.objects.filter(pk__in=ids)
        .select_related("agent__breaker", "dead_letter")
        .defer(*heavy)
        .annotate(
            last_outcomes=ArraySubquery(
                attempts.order_by("-number").values("outcome")[:OUTCOMES_SHOWN]
            ),
            worked=Subquery(worked),
            running_since=when(TaskState.RUNNING, LIVE.values("started_at")),
            lease_ends_at=when(TaskState.RUNNING, LIVE.values("lease_expires_at")),
        )
    )
    found = add_outcomes(rows)
    for row in found:
        row.plan = plan
    return found


def links(plan_id: UUID) -> list[NeedLink]:
    """What its current tasks need, and what they wait for that nobody has imported yet."""
    rows = Need.objects.filter(task__plan=plan_id, task__replaced_by=None).order_by()
    found = rows.values_list(
        "task_id", "need_id", "need__ref", "need__state", "need__title", "need__type"
    )
    made = [
        NeedLink(task, need, ref or "", state, title or type)
        for task, need, ref, state, title, type in found
    ]
    waits = MissingNeed.objects.filter(task__plan=plan_id, task__replaced_by=None)
    unknown = waits.values_list("task_id", "ref")
    return made + [NeedLink(task, None, ref, "", "not imported yet") for task, ref in unknown]


def failures(plan_id: UUID, carried: Mapping[UUID, UUID]) -> list[Failed]:
    """Those of its current tasks, oldest first; `carried` are rows of earlier runs that go on in
    them, each with its task."""
    rows = Failure.objects.filter(CURRENT, task__plan=plan_id)
    if carried:
        rows |= Failure.objects.filter(task__in=list(carried))
    found = rows.order_by("id").values_list(
        "task_id",
        "type",
        Left("message", MESSAGE),
        "at",
        "grouped__pattern_id",
        "grouped__pattern__template",
    )
    return [Failed(carried.get(id, id), *more) for id, *more in found[: 4 * MOST_TASKS]]


def questions(plan_id: UUID, carried: Mapping[UUID, UUID]) -> list[Escalation]:
    """What people were asked about its tasks, oldest first; also about what goes on in them."""
    rows = Escalation.objects.filter(CURRENT, task__plan=plan_id)
    if carried:
        rows |= Escalation.objects.filter(task__in=list(carried))
    return list(rows.only("id", "task_id", "state", "opened_at").order_by("id"))


EVENTS = """(
    select id from ledger_event where subject_id = %s order by id desc limit %s
) union (
    select e.id from (
        select id from ledger_task where plan_id = %s order by updated_at desc limit %s
    ) t cross join lateral (
        select id from ledger_event where subject_id = t.id order by id desc limit %s
    ) e order by e.id desc limit %s
)"""


def told(plan_id: UUID) -> tuple[list[activity_queries.Line], list[activity_queries.Line]]:
    """The newest events of the plan itself, and the newest of it and its tasks."""
    newest = (plan_id, HISTORY_SHOWN, plan_id, LAST_CHANGED, ACTIVITY_SHOWN, ACTIVITY_SHOWN)
    rows = Event.objects.filter(pk__in=RawSQL(EVENTS, newest))  # noqa: S611
    lines = activity_queries.lines(list(activity_queries.shown(rows.order_by("-id"))))
    own = [line for line in lines if line.event.subject_id == plan_id]
    return own, lines[:ACTIVITY_SHOWN]


@dataclass(frozen=True, slots=True)
class Run:
    """A run before the last one, and how its tasks ended."""

    number: int
    started_at: datetime
    last_at: datetime
    states: Counter[str]


def runs(plan: Plan) -> list[Run]:
    """The runs before this one, the last first."""
    if plan.run == 1:
        return []
    rows = Task.objects.filter(plan=plan, run__lt=plan.run).order_by()
    found: dict[int, Run] = {}
    for number, state, n, first, last in rows.values_list("run", "state").annotate(
        n=Count("*"), first=Min("created_at"), last=Max("updated_at")
    ):
        run = found.get(number)
        states = (run.states if run else Counter()) + Counter({state: n})
        found[number] = Run(
            number,
            min(first, run.started_at) if run else first,
            max(last, run.last_at) if run else last,
            states,
        )
    return [found[number] for number in sorted(found, reverse=True)]
