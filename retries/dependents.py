"""What becomes of what depends on a task that a person goes on without: one of three choices."""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from ledger import journal, needs, sql
from ledger.journal import Actor, Kind
from ledger.models import Task
from ledger.moves import task_sources, task_to
from ledger.states import BlockedReason, TaskState
from ledger.tokens import TrustedCaller
from retries.models import Escalation
from retries.states import Dependents

# which of the tasks that are gone a dependent `m` needed: its warning
WITHOUT = """jsonb_build_object('without', (select jsonb_agg(d.need_id order by d.need_id)
    from ledger_need d where d.task_id = m.id and d.need_id = any(%(ids)s)))"""
GO_ON = f"""with {TrustedCaller.cte}, gone as (select id from unnest(%(ids)s::uuid[]) id), {
    needs.unblocking_ctes("gone", data=WITHOUT)
} select id from freed"""

DEPEND = "t.id = any(array(select task_id from ledger_need where need_id = any(%(ids)s)))"
SKIPPED = f"'{BlockedReason.DEPENDENCY_SKIPPED}'"
REASON = f"jsonb_build_object('reason', {SKIPPED}) || {WITHOUT}"
HOLD = f"""with {TrustedCaller.cte}, held as (
    update ledger_task t set blocked_reason = {SKIPPED}, updated_at = %(now)s,
        version = t.version + 1
    where t.state = '{TaskState.BLOCKED}' and t.blocked_reason = '{BlockedReason.DEPENDENCY}'
        and {DEPEND}
    returning t.id, t.project_id, t.agent_id
), moved as ({
    task_to(
        TaskState.BLOCKED,
        where=f"t.state in ('{TaskState.QUEUED}', '{TaskState.RETRY}') and {DEPEND}",
        reason=SKIPPED,
    )
}), told_held as ({
    journal.insert(
        "held",
        kind=f"'{Kind.TASK_BLOCKED}'",
        subject="task",
        from_state="null",
        to_state="null",
        data=REASON,
    )
}), told as ({
    journal.insert("moved", kind=f"'{Kind.TASK_BLOCKED}'", subject="task", data=REASON)
}) select id from moved"""

SKIPPABLE = (
    f"join ledger_task t on t.id = d.task_id and t.state in ({task_sources(TaskState.SKIPPED)})"
)
DOWNSTREAM = f"""downstream (id) as (
    select d.task_id from ledger_need d {SKIPPABLE} where d.need_id = any(%(ids)s)
    union
    select d.task_id from downstream s join ledger_need d on d.need_id = s.id {SKIPPABLE}
)"""
SKIP = f"""with recursive {TrustedCaller.cte}, {DOWNSTREAM}, moved as ({
    task_to(TaskState.SKIPPED, where="t.id = any(array(select id from downstream))")
}), told as ({
    journal.insert(
        "moved",
        kind=f"'{Kind.TASK_SKIPPED}'",
        subject="task",
        data="jsonb_build_object('because', %(ids)s::uuid[])",
    )
}) select id from moved"""

STATEMENTS = {Dependents.CONTINUE: GO_ON, Dependents.BLOCK: HOLD, Dependents.SKIP: SKIP}


def settle(
    gone: Iterable[UUID], choice: str, *, actor: Actor, now: datetime, request_id: str = ""
) -> list[UUID]:
    """Do with the dependents of these tasks as was chosen; the ids of those that were skipped.

    In the transaction in which the tasks go, which holds them. The caller closes the questions
    about the skipped.
    """
    choice, known, ids = Dependents(choice), TrustedCaller(actor, request_id=request_id), list(gone)
    if choice == Dependents.SKIP:
        hold_downstream(ids)
    rows = sql.run(STATEMENTS[choice], ids=ids, now=now, **known.params)
    return [row["id"] for row in rows] if choice == Dependents.SKIP else []


def hold(ids: Iterable[UUID]) -> list[UUID]:
    """Lock the questions about these tasks, then the tasks, as an answer does; their ids."""
    asked, found = list(ids), Escalation.objects.open()
    list(found.filter(task_id__in=asked).order_by("id").select_for_update())
    return list(needs.hold(asked))


FOUND = f"with recursive {DOWNSTREAM} select id from downstream"


def hold_downstream(gone: list[UUID]) -> None:
    """Lock all that would be skipped with these, so that nobody comes to wait for it meanwhile."""
    held: set[UUID] = set()
    while new := {row["id"] for row in sql.run(FOUND, ids=gone)} - held:
        held |= set(hold(new)) | new


COUNT = f"with recursive {DOWNSTREAM} select count(*) as n from downstream"


def downstream(task_id: UUID) -> int:
    """How many would be skipped with it, whatever stands between."""
    return int(sql.run(COUNT, ids=[task_id])[0]["n"])


def every(task_id: UUID) -> list[Task]:
    """What depends on it, the oldest first."""
    rows = Task.objects.filter(needs__need=task_id)
    return list(rows.only("id", "ref", "title", "type", "state", "needed_by").order_by("id"))
