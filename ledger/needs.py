"""Who waits for whom: needs that are met, and dependents that come while a need is ending.

A statement that ends a task and has to wait for its row sees the dependents of the time before. So
whoever comes to wait counts itself in the row (`needed_by`), which is read as it is in the end: one
statement ends only what nobody waits for, everything else two, of which the second sees everything.
"""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from ledger import journal, sql
from ledger.errors import Refusal
from ledger.journal import Kind
from ledger.models import Task
from ledger.moves import needs_met
from ledger.states import BlockedReason, TaskState
from ledger.tokens import TrustedCaller


class UnknownDependency(Refusal):
    """Unknown dependency"""

    code = "unknown_dependency"
    hint = "Enqueue what is needed first, in the same project."


def freeing(source: str, *, data: str = "'{}'::jsonb") -> str:
    """The CTEs by which what depends on the tasks `m` of a CTE goes on, `freed` among them.

    `data` is SQL: what the journal tells of each `m` that is freed, beside the need that was met.
    """
    told = journal.insert(
        "freed",
        kind=f"'{Kind.TASK_UNBLOCKED}'",
        subject="task",
        data="jsonb_strip_nulls(jsonb_build_object("
        f"'reason', '{BlockedReason.DEPENDENCY}', 'need', m.need)) "
        f"|| {data}",
    )
    return f"""met as ({needs_met(source)}),
    freed as (select * from met
        where state = '{TaskState.QUEUED}' and from_state = '{TaskState.BLOCKED}'),
    told_freed as ({told})"""


MEET = f"""with {TrustedCaller.cte}, ended as (select id from unnest(%(ids)s::uuid[]) id), {
    freeing("ended")
} select id from freed"""


def meet(ids: Iterable[UUID], *, caller: TrustedCaller, now: datetime) -> list[UUID]:
    """Let what depends on these tasks go on, in the transaction that locked or ended them.

    The ids of those that waited for nothing else.
    """
    return [row["id"] for row in sql.run(MEET, ids=list(ids), now=now, **caller.params)]


def hold(ids: Iterable[UUID]) -> dict[UUID, UUID | None]:
    """Lock tasks to the end of the transaction, in the order of their ids; what replaced each.

    Nobody comes to wait for them meanwhile, and the next statement sees all who did.
    """
    rows = Task.objects.filter(pk__in=list(ids)).order_by("pk").select_for_update(no_key=True)
    return dict(rows.values_list("pk", "replaced_by_id"))


def hold_current(ids: Iterable[UUID], *, project_id: UUID) -> dict[UUID, UUID]:
    """Lock what stands for each of these tasks now: where it was replaced, its replacement.

    Raises UnknownDependency where the project has no such task.
    """
    stands = {id: id for id in ids}
    known = Task.objects.filter(pk__in=stands, project_id=project_id).values_list("pk", flat=True)
    if missing := set(stands) - set(known):
        raise UnknownDependency(f"There is no task {min(missing)} in this project.")
    while replaced := {id: by for id, by in hold(set(stands.values())).items() if by}:
        stands = {id: replaced.get(now, now) for id, now in stands.items()}
    return stands


WAITED_FOR = """update ledger_task t
set needed_by = (select count(*) from ledger_need d where d.need_id = t.id)
where t.id = any(%(ids)s)"""


def count_dependents(ids: Iterable[UUID]) -> None:
    """Count anew who waits for these tasks, after that was changed; they are held until the end."""
    held = list(hold(ids))
    if held:
        sql.run(WAITED_FOR, ids=held)
