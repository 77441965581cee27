"""Queries of the Dead letters pages: the list, its counts, and one dead letter."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import F, JSONField, OuterRef, QuerySet, Subquery
from django.db.models.functions import JSONObject, Left

from dashboard.assignment import with_people
from dashboard.deadletters.causes import CauseCounts
from dashboard.lists.compiled_queries import compiled
from dashboard.lists.query_box import BoxQuery
from dashboard.lists.shared_queries import CountOf, hash_of, name_params, of_project
from dashboard.tasks.queries import OUTCOMES_SHOWN, add_outcomes
from ledger.database import sql
from ledger.database.optional_cache import get_or_compute_slow
from ledger.models import Attempt, DeadLetter, Failure, Need, Project
from ledger.states import TaskState
from retries.assignment.rows import TASK
from retries.models import FailurePattern

RECENT = 4
COUNTED = 1_000  # dead letters whose causes are counted, the newest of a list
FAILURES_OF_TASK = 50
TEMPLATE_LENGTH = 240
# the columns of a row in the list
COLUMNS = (
    *("type", "error", "failed_at", "closed_at", "closed_as", "agent__name", "project__name"),
    *("task__title", "task__type", "task__ref", "task__attempts", "task__attempt_limit"),
    "task__carries_id",
)
RECENT_COLUMNS = (
    *("closed_at", "closed_as", "closed_by_name", "note", "replayed_as__state"),
    *("task__title", "task__type"),
)


def with_extras(rows: QuerySet[DeadLetter]) -> QuerySet[Any]:
    last = Failure.objects.filter(task=OuterRef("task")).order_by("-id")
    attempts = Attempt.objects.filter(task=OuterRef("task")).order_by("-number")
    waiting = Need.objects.filter(need=OuterRef("task"), task__state=TaskState.BLOCKED)
    # the pattern of the last failure
    pattern = FailurePattern.objects.filter(grouped__failure__task=OuterRef("task"))
    shown = JSONObject(
        id="id",
        fingerprint="fingerprint",
        template=Left("template", TEMPLATE_LENGTH),
        first_seen="first_seen",
    )
    return rows.select_related("task", "agent", "project").annotate(
        assignee_name=F("task__assignee__username"),
        cause_pattern=Subquery(
            pattern.order_by("-grouped__failure_id").values(shown=shown)[:1],
            output_field=JSONField(),
        ),
        failure_type=Subquery(last.values("type")[:1]),
        last_outcomes=ArraySubquery(attempts.values("outcome")[:OUTCOMES_SHOWN]),
        waiting=CountOf(waiting.order_by().values("task_id")),
    )


def add_task_outcomes(letters: Sequence[Any]) -> None:
    for letter in letters:
        letter.task.last_outcomes = letter.last_outcomes
    add_outcomes(letter.task for letter in letters)


@compiled
def list_recently_closed(project: Project | None) -> QuerySet[Any]:
    rows = of_project(DeadLetter.objects.exclude(closed_at=None), project)
    found = rows.select_related("task", "replayed_as").only(*RECENT_COLUMNS)
    return found.order_by("-closed_at", "-id")[:RECENT]


# The lookups have limits, so that no plan can read all failures of the patterns instead.
CAUSES = f"""with letters as materialized ({{matching}})
select g.pattern_id, count(*) as total, count(*) filter (where l.closed_at is null) as open,
    sum(l.attempts)::int as attempts, max(l.failed_at) as last_at,
    array_agg(distinct l.agent_name order by l.agent_name) as agents, sum(w.n)::int as waiting,
    (select count(*) from letters) >= %(most)s as are_some
from letters l
cross join lateral (
    select distinct g.pattern_id from (
        select f.id from ledger_failure f where f.task_id = l.task_id limit {FAILURES_OF_TASK}
    ) f
    cross join lateral (
        select g.pattern_id from retries_grouped g where g.failure_id = f.id limit 1
    ) g where g.pattern_id = any(%(ids)s)
) g
cross join lateral (
    select count(*) as n from ledger_need n join ledger_task d on d.id = n.task_id
    where n.need_id = l.task_id and d.state = '{TaskState.BLOCKED}'
) w
group by 1"""


def count_causes(
    rows: QuerySet[DeadLetter], ids: list[UUID], *, of: tuple[BoxQuery, Project | None]
) -> dict[UUID, CauseCounts]:
    """Count the dead letters that failed in each of these patterns."""

    # Of a long list, only the first ones are counted. The counts are cached for the query and
    # project in `of`.
    def count() -> dict[UUID, CauseCounts]:
        names = {"agent_name": F("agent__name"), "attempts": F("task__attempts")}
        columns = ("id", "task_id", "closed_at", "failed_at")
        matching, params = name_params(rows.values(*columns, **names)[:COUNTED])
        statement = CAUSES.format(matching=matching)
        found = sql.run_custom_plan(statement, ids=ids, most=COUNTED, **params)
        return {row.pop("pattern_id"): CauseCounts(**row) for row in found}

    query, project = of
    where = project.id if project else "all"
    return get_or_compute_slow(f"letters:causes:{where}:{hash_of((query, ids))}", count)


def find_deadletter(letter_id: UUID) -> Any:
    """Return a dead letter with all its columns, or None."""
    rows = with_people(with_extras(DeadLetter.objects.filter(pk=letter_id)), TASK, path="task__")
    found = rows.select_related("task__plan", "replayed_as").defer("task__plan__source").first()
    add_task_outcomes([found] if found else [])
    return found
