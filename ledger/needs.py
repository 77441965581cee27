"""Which tasks wait for which: meet needs, and find dependents that arrive while a need ends.

A statement that ends a task, and has to wait for its row, sees the dependents from before the wait.
So each new dependent is counted in the row of what it needs (`needed_by`), which is always read as
it is in the end: one statement ends only tasks that nothing depends on; every other end takes two
statements, and the second one sees all dependents.

The rule when a need is met has one home in SQL, `ledger.moves.need_is_met`, because the statements
of `ledger.moves` read it and that module is below this one, and one for querysets, `unmet_needs`.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from ledger import journal
from ledger.database import sql
from ledger.errors import Refusal
from ledger.journal import Kind
from ledger.models import Need, Task
from ledger.moves import count_down_needs, need_is_met
from ledger.states import BlockedReason, TaskState
from ledger.tokens import TrustedCaller


class UnknownDependency(Refusal):
    """Unknown dependency"""

    code = "unknown_dependency"
    hint = "Enqueue the needed task first, in the same project."


def unmet_needs() -> QuerySet[Need]:
    # `ledger.moves.need_is_met` is the same rule in SQL.
    return Need.objects.exclude(need__state__in=(TaskState.DONE, TaskState.SKIPPED)).exclude(
        need__dead_letter__closed_as="dismissed"
    )


def skipped_needs(task_id: str) -> str:
    """Return the SQL of the needs that a task continues without, or null if there are none.

    They were skipped, or failed and were dismissed.
    """
    return f"""(select jsonb_agg(jsonb_build_object('id', n.id, 'ref', n.ref, 'title', n.title)
            order by n.id)
        from ledger_need d join ledger_task n on n.id = d.need_id
        where d.task_id = {task_id} and n.state <> '{TaskState.DONE}' and {need_is_met("n")})"""


def fetch_skipped_needs(task_ids: Iterable[UUID]) -> dict[UUID, Any]:
    statement = (
        f"select t.id, {skipped_needs('t.id')} as skipped from unnest(%(ids)s::uuid[]) t(id)"
    )
    return {row["id"]: row["skipped"] for row in sql.run(statement, ids=list(task_ids))}


def unblocking_ctes(source: str, *, data: str = "'{}'::jsonb") -> str:
    """Return the CTEs that unblock the dependents of tasks `m` of a CTE; `freed` are queued.

    `data` is SQL: the event data of each freed task `m`, in addition to the need that was met.
    """
    journaled = journal.insert(
        "freed",
        kind=f"'{Kind.TASK_UNBLOCKED}'",
        subject="task",
        data="jsonb_strip_nulls(jsonb_build_object("
        f"'reason', '{BlockedReason.DEPENDENCY}', 'need', m.need)) "
        f"|| {data}",
    )
    return f"""met as ({count_down_needs(source)}),
    freed as (select * from met
        where state = '{TaskState.QUEUED}' and from_state = '{TaskState.BLOCKED}'),
    journaled_freed as ({journaled})"""


MEET = f"""with {TrustedCaller.cte}, ended as (select id from unnest(%(ids)s::uuid[]) id), {
    unblocking_ctes("ended")
} select id from freed"""


def meet(ids: Iterable[UUID], *, caller: TrustedCaller, now: datetime) -> list[UUID]:
    """Count these needs as met and return the ids of the tasks that are queued now.

    Call it in the transaction that locked or ended them.
    """
    return [row["id"] for row in sql.run(MEET, ids=list(ids), now=now, **caller.params)]


def hold(ids: Iterable[UUID]) -> dict[UUID, UUID | None]:
    """Lock tasks until the transaction ends, in id order; return the replacement of each."""
    # No new dependent can be added meanwhile, and the next statement sees all existing ones.
    rows = Task.objects.filter(pk__in=list(ids)).order_by("pk").select_for_update(no_key=True)
    return dict(rows.values_list("pk", "replaced_by_id"))


def hold_current(
    ids: Iterable[UUID], *, project_id: UUID, agent_id: UUID | None = None
) -> dict[UUID, UUID]:
    """Lock the task that stands for each of these now: itself, or its latest replacement.

    Raises UnknownDependency if the project, or the agent if one is given, has no such task: an
    agent must not learn whether another agent's task exists.
    """
    stands = {id: id for id in ids}
    known = Task.objects.filter(pk__in=stands, project_id=project_id)
    if agent_id is not None:
        known = known.filter(agent_id=agent_id)
    if missing := set(stands) - set(known.values_list("pk", flat=True)):
        where = "in this project" if agent_id is None else "of this agent"
        raise UnknownDependency(f"There is no task {min(missing)} {where}.")
    while replaced := {id: by for id, by in hold(set(stands.values())).items() if by}:
        stands = {id: replaced.get(now, now) for id, now in stands.items()}
    return stands


COUNT_DEPENDENTS = """update ledger_task t
set needed_by = (select count(*) from ledger_need d where d.need_id = t.id)
where t.id = any(%(ids)s)"""


def count_dependents(ids: Iterable[UUID]) -> None:
    held = list(hold(ids))
    if held:
        sql.run(COUNT_DEPENDENTS, ids=held)
