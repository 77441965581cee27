"""Let the dependents of tasks that end undone continue, stay blocked, or be skipped."""

from collections.abc import Iterable
from uuid import UUID

from ledger import journal, needs
from ledger.database import sql
from ledger.journal import Kind, Stamp
from ledger.models import Task
from ledger.moves import task_sources, task_to
from ledger.states import BlockedReason, TaskState
from ledger.tokens import TrustedCaller
from retries.models import Escalation
from retries.states import Dependents

# the tasks among %(ids)s that a dependent `m` needed: the journal warns that they are missing
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
}), journaled_held as ({
    journal.insert_without_states(
        "held", kind=f"'{Kind.TASK_BLOCKED}'", subject="task", data=REASON
    )
}), journaled as ({
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
}), journaled as ({
    journal.insert(
        "moved",
        kind=f"'{Kind.TASK_SKIPPED}'",
        subject="task",
        data="jsonb_build_object('because', %(ids)s::uuid[])",
    )
}) select id from moved"""

STATEMENTS = {Dependents.CONTINUE: GO_ON, Dependents.BLOCK: HOLD, Dependents.SKIP: SKIP}


def settle_dependents(task_ids: Iterable[UUID], choice: str, *, stamp: Stamp) -> list[UUID]:
    """Treat the dependents of these tasks as chosen; return the ids of those that were skipped.

    Call it in the transaction that has locked the tasks and ends them. The caller closes the
    questions about skipped dependents.
    """
    choice, ids = Dependents(choice), list(task_ids)
    caller = TrustedCaller(stamp.actor, request_id=stamp.request_id)
    if choice == Dependents.SKIP:
        lock_downstream(ids)
    rows = sql.run(STATEMENTS[choice], ids=ids, now=stamp.at, **caller.params)
    return [row["id"] for row in rows] if choice == Dependents.SKIP else []


def lock_with_questions(ids: Iterable[UUID]) -> list[UUID]:
    # Lock the questions before the tasks, as an answer does.
    ids, questions = list(ids), Escalation.objects.open()
    list(questions.filter(task_id__in=ids).order_by("id").select_for_update())
    return list(needs.hold(ids))


FIND = f"with recursive {DOWNSTREAM} select id from downstream"


def lock_downstream(ids: list[UUID]) -> None:
    # Locked tasks get no new dependents.
    locked: set[UUID] = set()
    while new := {row["id"] for row in sql.run(FIND, ids=ids)} - locked:
        locked |= set(lock_with_questions(new)) | new


COUNT = f"with recursive {DOWNSTREAM} select count(*) as n from downstream"


def count_downstream(task_id: UUID) -> int:
    """Return how many tasks would be skipped with this one, direct dependents and theirs."""
    return int(sql.run(COUNT, ids=[task_id])[0]["n"])


def list_dependents(task_id: UUID) -> list[Task]:
    rows = Task.objects.filter(needs__need=task_id)
    return list(rows.only("id", "ref", "title", "type", "state", "needed_by").order_by("id"))
