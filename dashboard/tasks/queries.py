"""Filter tasks as a query box asks for, and read the rows of the Tasks list."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial, reduce
from operator import and_
from typing import Any
from uuid import UUID

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import (
    Case,
    CharField,
    DateTimeField,
    F,
    Func,
    IntegerField,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    When,
)
from django.db.models.functions import Coalesce

from dashboard.assignment import assigned_to
from dashboard.lists.compiled_queries import compiled
from dashboard.lists.shared_queries import (
    bound_ids,
    failed_in_pattern,
    failed_with,
    match_age,
    match_any,
    match_groups,
    match_period,
    match_values,
    of_project,
)
from dashboard.question_lines import FAILURE_TEXTS, find_failure_headline
from dashboard.tasks.filters import STATES, TaskQuery
from dashboard.wording.status_text import AHEAD_CAP
from ledger import search_words
from ledger.database import sql
from ledger.models import Attempt, Project, Task
from ledger.models.task import has_proof
from ledger.needs import unmet_needs
from ledger.states import BlockedReason, TaskState
from ledger.tasks.lineage import fetch_lineages
from retries.journal_readers import stored_values
from retries.models import Escalation

OUTCOMES_SHOWN = 6
# columns that a list does not read
HEAVY = ("payload", "result", "error", "redactions")
HEAVY_OF_PLAN = ("plan__source", "plan__objective")
# Always true; makes the planner use both partial indexes.
DONE = Q(state=TaskState.DONE)


# ---- filters


def filter_tasks(
    query: TaskQuery, project: Project | None, *, walks: bool = False
) -> QuerySet[Task]:
    """Return the tasks that match a query; with `walks`, words and values are checked per row."""
    has_word = search_words.check_task if walks else search_words.match_task
    list_all = partial(list_conditions, project=project, walks=walks)
    rows = of_project(Task.objects.all(), project).filter(*list_all(query))
    if query.changed:
        rows = rows.filter(DONE | ~DONE)
    if query.attempts_over is not None:
        rows = rows.filter(attempts__gt=query.attempts_over)
    if query.attempts_under is not None:
        rows = rows.filter(attempts__lt=query.attempts_under)
    for word in query.words:
        rows = rows.filter(has_word(word))
    rows = rows.filter(id__in=query.ids) if query.ids else rows
    if not query.groups:
        return rows

    def match(each: TaskQuery) -> Q:
        more = [has_word(word) for word in each.words]
        if each.attempts_over is not None:
            more.append(Q(attempts__gt=each.attempts_over))
        if each.attempts_under is not None:
            more.append(Q(attempts__lt=each.attempts_under))
        if each.ids:
            more.append(Q(id__in=each.ids))
        return reduce(and_, (*list_all(each), *more))

    return rows.filter(match_groups(query, match))


def list_conditions(query: TaskQuery, project: Project | None, *, walks: bool = False) -> list[Q]:
    has_value = stored_values.check_task if walks else stored_values.match_task
    return [
        # The index finds those with a value; of those without one, each row is looked at.
        *(
            match_any(replace(values, unwanted=()), partial(has_value, key, project))
            for key, values in query.stored
        ),
        *(
            match_any(replace(values, wanted=()), partial(stored_values.check_task, key, project))
            for key, values in query.stored
        ),
        match_values(query.agent, "agent__name"),
        match_values(query.pool, "pool__name"),
        match_values(query.type, "type"),
        match_values(query.plan, "plan__ref"),
        match_any(query.state, lambda name: Q(state__in=STATES[name])),
        # only blocked tasks have a reason; with the state, an index finds them
        match_any(query.reason, lambda name: Q(state=TaskState.BLOCKED, blocked_reason=name)),
        match_any(query.proof, has_proof),
        match_any(query.assignee, assigned_to),
        match_any(query.error, lambda text: Q(id__in=failed_with(text))),
        match_any(query.pattern, lambda text: Q(id__in=failed_in_pattern(text, project))),
        match_age(query.older, "updated_at"),
        match_period(query.changed, "updated_at"),
        bound_ids(query.changed, is_creation=False),
        match_period(query.created, "created_at"),
        bound_ids(query.created),
    ]


def is_retried(query: TaskQuery) -> bool:
    # An index has the tasks of several attempts.
    return query.attempts_over is not None and query.attempts_over >= 1


# ---- rows


LIVE = Attempt.objects.filter(pk=OuterRef("current_attempt"))
NEED_NAME = Coalesce("need__ref", "need__title")
OPEN_REASON = Escalation.objects.open().filter(task=OuterRef("pk")).values("reason")[:1]
UNMET = unmet_needs().filter(task=OuterRef("pk"))


def with_extras(rows: QuerySet[Task]) -> QuerySet[Any]:
    # For the page's rows only: each of them runs the subqueries.
    attempts = Attempt.objects.filter(task=OuterRef("pk")).order_by("-number")
    queue = Task.objects.filter(agent=OuterRef("agent"), state=TaskState.QUEUED)
    # only the head of the queue, because it may be long
    head = ArraySubquery(queue.order_by("-priority", "id").values("id")[:AHEAD_CAP])
    return rows.select_related("agent__breaker", "pool", "project", "plan", "dead_letter").annotate(
        assignee_name=F("assignee__username"),
        last_outcomes=ArraySubquery(attempts.values("outcome")[:OUTCOMES_SHOWN]),
        running_since=when(TaskState.RUNNING, LIVE.values("started_at")),
        heartbeat_at=when(TaskState.RUNNING, LIVE.values("heartbeat_at")),
        lease_ends_at=when(TaskState.RUNNING, LIVE.values("lease_expires_at")),
        place=Case(
            When(state=TaskState.QUEUED, then=Func(head, F("id"), function="array_position")),
            output_field=IntegerField(),
        ),
        asked=Case(
            When(state=TaskState.ESCALATED, then=Subquery(OPEN_REASON)), output_field=CharField()
        ),
        waits_for=Subquery(UNMET.order_by("need_id").values(said=NEED_NAME)[:1]),
        need_ended=Subquery(
            UNMET.filter(need__state__in=(TaskState.FAILED, TaskState.ABORTED))
            .order_by("need__state", "need_id")
            .values("need__state")[:1]
        ),
    )


def when(state: TaskState, query: QuerySet[Any, Any]) -> Case:
    return Case(When(state=state, then=Subquery(query)), output_field=DateTimeField())


def read_tasks(ids: list[UUID]) -> list[Any]:
    found = {row.pk: row for row in fetch_tasks(tuple(ids))} if ids else {}
    return [found[id] for id in ids if id in found]


@compiled
def fetch_tasks(ids: tuple[UUID, ...]) -> QuerySet[Any]:
    heavy = (
        *HEAVY,
        *HEAVY_OF_PLAN,
        "dead_letter__payload",
        "dead_letter__error",
        "dead_letter__note",
    )
    return with_extras(Task.objects.filter(id__in=ids)).defer(*heavy).order_by("-id")


def add_outcomes(rows: Iterable[Any]) -> list[Any]:
    """Set the `outcomes` of each row's last attempts, oldest first, across its earlier runs."""
    made = list(rows)
    for row in made:
        row.outcomes = row.last_outcomes[::-1]
    # A task that continues an earlier run also shows that run's attempts.
    if going_on := [row.pk for row in made if row.carries_id]:
        belongs = fetch_lineages(going_on)
        found: dict[UUID, list[str | None]] = {}
        tried = Attempt.objects.filter(task__in=belongs).order_by("number")
        for id, outcome in tried.values_list("task_id", "outcome"):
            found.setdefault(belongs[id], []).append(outcome)
        for row in made:
            row.outcomes = found.get(row.pk, row.outcomes)[-OUTCOMES_SHOWN:]
    return made


# states in which the last failure tells what to do next
TOLD_ERROR = (TaskState.FAILED, TaskState.ESCALATED, TaskState.RETRY)
HEADLINES = f"""select t.id, {FAILURE_TEXTS} from unnest(%(ids)s::uuid[]) t (id)
cross join lateral (
    select * from ledger_failure where task_id = t.id order by id desc limit 1
) f"""


def fetch_headlines(rows: Iterable[Any]) -> dict[UUID, str]:
    ids = [
        row.pk
        for row in rows
        if row.state in TOLD_ERROR or row.blocked_reason == BlockedReason.REPORTED
    ]
    return fetch_last_headlines(ids) if ids else {}


def fetch_last_headlines(task_ids: list[UUID]) -> dict[UUID, str]:
    found = sql.run(HEADLINES, ids=task_ids)
    return {row["id"]: find_failure_headline(row) for row in found}
