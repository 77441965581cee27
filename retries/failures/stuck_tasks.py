"""Find the tasks that are stuck because of patterns.

A pattern may have far more failures than there are stuck tasks, and the other way around. The
statement begins with the failures if they are few, or else with all tasks that are stuck, in the
order of their partial indexes. It looks up the rest row by row: each lookup has a limit, so that no
plan can read a whole table instead, whatever the statistics are.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from django.db.models import BooleanField, F, Func, QuerySet
from django.db.models.expressions import RawSQL

from ledger.database import sql
from ledger.models import Task
from ledger.states import TaskState
from retries.models import Escalation, EscalationQuerySet
from retries.states import QUESTIONS, EscalationState, Reason

FEW = 1000  # failures of the patterns, up to which the statement begins with them
# A person has to read what an agent or a plan asks, and whether a timed-out task took effect.
FOR_PEOPLE = (*QUESTIONS, Reason.NEEDS_CONFIRMATION)
LAST_FAILURE = "select id from ledger_failure where task_id = {0} order by id desc limit 1".format
IS_STUCK = f"""case t.state when '{TaskState.RETRY}' then true
    when '{TaskState.FAILED}' then (
        select true from ledger_deadletter where task_id = t.id and closed_at is null limit 1
    )
    when '{TaskState.ESCALATED}' then (
        select true from retries_escalation where task_id = t.id
            and state = '{EscalationState.OPEN}' and reason not in ({sql.quoted(FOR_PEOPLE)})
        limit 1
    ) end"""


def build_statement(patterns: str, *, few: int = FEW) -> str:
    """Return the statement that selects stuck tasks; `patterns` is the placeholder of the ids."""
    return f"""with size as materialized (
    select coalesce(sum(c.failures), 0) <= {few} as is_few
    from unnest({patterns}::uuid[]) p(id) cross join lateral (
        select sum(failures) as failures from retries_failurecount where pattern_id = p.id
    ) c
), found as (
    select f.task_id as id from unnest({patterns}::uuid[]) p(id)
    cross join lateral (
        select failure_id from retries_grouped where pattern_id = p.id order by at desc limit {few}
    ) g
    cross join lateral (select task_id from ledger_failure where id = g.failure_id limit 1) f
    where (select is_few from size) and ({LAST_FAILURE("f.task_id")}) = g.failure_id
    union all
    select s.id from (
        (select id from ledger_task where state = '{TaskState.RETRY}' order by id)
        union all
        (select task_id from ledger_deadletter where closed_at is null order by task_id)
        union all
        (select task_id from retries_escalation
            where state = '{EscalationState.OPEN}' and task_id is not null order by task_id)
    ) s
    cross join lateral ({LAST_FAILURE("s.id")}) f
    cross join lateral (select pattern_id from retries_grouped where failure_id = f.id limit 1) g
    where not (select is_few from size) and g.pattern_id = any({patterns}::uuid[])
)
select t.id, t.state from (select distinct id from found) s
cross join lateral (
    select id, state from ledger_task where id = s.id and replaced_by_id is null limit 1
) t
where {IS_STUCK}"""


COUNT = f"""select state, count(*) as n from ({build_statement("%(patterns)s")}) stuck group by 1"""


def retryable_escalations() -> EscalationQuerySet:
    """Return the open escalations that another attempt can settle."""
    return Escalation.objects.open().exclude(reason__in=FOR_PEOPLE)


def stuck_tasks(ids: Iterable[UUID], *, few: int = FEW) -> QuerySet[Task]:
    """Return the waiting or stopped tasks whose last failure has one of these patterns."""
    patterns = list(ids)
    statement = build_statement("%s", few=few)
    found = RawSQL(  # noqa: S611 - only our own SQL
        f"array(select id from ({statement}) stuck)", [patterns] * statement.count("%s")
    )
    # as an array, because PostgreSQL knows how to look up each of its ids
    is_found = Func(
        F("id"),
        found,
        template="(%(expressions)s)",
        arg_joiner=" = any",
        output_field=BooleanField(),
    )
    return Task.objects.filter(is_found).order_by("id")


@dataclass(frozen=True, slots=True)
class StuckTasks:
    """The numbers of tasks that failed, wait or are escalated because of a pattern."""

    dead: int
    waiting: int
    asked: int

    @property
    def total(self) -> int:
        return self.dead + self.waiting + self.asked


def count_stuck_tasks(pattern_id: UUID) -> StuckTasks:
    found = {row["state"]: row["n"] for row in sql.run(COUNT, patterns=[pattern_id])}
    states = (TaskState.FAILED, TaskState.RETRY, TaskState.ESCALATED)
    return StuckTasks(*(found.get(state, 0) for state in states))
