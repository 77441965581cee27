"""What people do to tasks: try again now, go on without, stop. Bulk is the verb."""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from ledger import journal, needs, sql, tasks
from ledger.journal import Actor, Kind
from ledger.moves import task_to
from ledger.states import BlockedReason, TaskState
from ledger.tokens import Known
from retries import checkpoints, escalations
from retries.models import Escalation

State = TaskState

RETRY_NOW = f"""with {Known.cte}, hurried as (
    update ledger_task t set due_at = %(now)s, updated_at = %(now)s, version = t.version + 1
    where t.id = any(%(ids)s) and t.state = 'retry' and t.due_at > %(now)s
    returning t.id, t.project_id, t.agent_id, t.attempts
), told as ({
    journal.insert(
        "hurried",
        kind=f"'{Kind.TASK_DUE}'",
        subject="task",
        from_state="null",
        to_state="null",
        data="jsonb_build_object('attempt', m.attempts + 1, 'by_hand', true)",
    )
}) select id from hurried"""


def retry_now(ids: Iterable[UUID], *, actor: Actor, now: datetime | None = None) -> list[UUID]:
    """Let these retries wait no longer; the ids of those that still waited."""
    known = Known(actor)
    rows = sql.run(RETRY_NOW, ids=list(ids), now=now or timezone.now(), **known.params)
    return [row["id"] for row in rows]


def skip_statement(dependents: str) -> str:
    moved = task_to(State.SKIPPED, where="t.id = any(%(ids)s)")
    told = journal.insert("moved", kind=f"'{Kind.TASK_SKIPPED}'", subject="task")
    held = journal.insert(
        "held",
        kind=f"'{Kind.TASK_BLOCKED}'",
        subject="task",
        data=f"jsonb_build_object('reason', '{BlockedReason.DEPENDENCY_SKIPPED}')",
    )
    head = f"with {Known.cte}, moved as ({moved}), told as ({told})"
    if dependents == "continue":
        return f"{head}, {needs.freeing('moved')} select id from moved"
    return f"""{head}, held as (
        update ledger_task t set blocked_reason = '{BlockedReason.DEPENDENCY_SKIPPED}',
            updated_at = %(now)s, version = t.version + 1
        where t.state = 'blocked' and t.blocked_reason = 'dependency' and t.id = any(array(
            select d.task_id from ledger_need d join moved m on m.id = d.need_id))
        returning t.id, t.project_id, t.agent_id, t.state, t.state as from_state
    ), told_held as ({held}) select id from moved"""


def hold(ids: Iterable[UUID]) -> list[UUID]:
    """Lock the questions about these tasks, then the tasks, as an answer does; their ids."""
    asked, found = list(ids), Escalation.objects.open()
    list(found.filter(task_id__in=asked).order_by("id").select_for_update())
    return list(needs.hold(asked))


SKIP = {choice: skip_statement(choice) for choice in ("continue", "block")}


@transaction.atomic
def skip(
    ids: Iterable[UUID],
    *,
    dependents: str = "continue",
    actor: Actor,
    now: datetime | None = None,
) -> list[UUID]:
    """Go on without these tasks; the ids of those that could be skipped.

    What depends on them goes on as if they were done, or stays blocked (`block`).
    """
    now = now or timezone.now()
    rows = sql.run(SKIP[dependents], ids=hold(ids), now=now, **Known(actor).params)
    gone = [row["id"] for row in rows]
    escalations.withdraw(gone, actor=actor, now=now)
    checkpoints.ask_after(gone, actor=actor, now=now)
    return gone


@transaction.atomic
def abort(
    ids: Iterable[UUID], *, actor: Actor, now: datetime | None = None, request_id: str = ""
) -> dict[UUID, bool]:
    """Stop these tasks, and withdraw the questions about them: see `ledger.tasks.abort`."""
    now = now or timezone.now()
    stopped = tasks.abort(hold(ids), actor=actor, now=now, request_id=request_id)
    escalations.withdraw([id for id, done in stopped.items() if done], actor=actor, now=now)
    return stopped
