"""People's actions on tasks: retry now, unblock, skip, abort, and change."""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction
from django.db.models import Count, Q, QuerySet
from psycopg.types.json import Jsonb

from ledger import journal, needs, tasks
from ledger.database import sql
from ledger.database.sql import Row
from ledger.journal import Kind, Stamp
from ledger.models import Need, Task
from ledger.moves import resume_skipped, task_to
from ledger.secrets.notes import noted
from ledger.states import FINAL, BlockedReason, TaskState
from ledger.tasks import Change
from ledger.tokens import TrustedCaller
from retries.escalations import lifecycle
from retries.models import Escalation
from retries.states import Dependents
from retries.tasks import checkpoints
from retries.tasks.dependents import lock_with_questions, settle_dependents

# a person is asked about these tasks
ASKED = Q(state=TaskState.ESCALATED) | Q(blocked_reason=BlockedReason.REPORTED)

RETRY_NOW = f"""with {TrustedCaller.cte}, made_due as (
    -- noted here, so that the clock does not journal it a second time
    update ledger_task t set due_at = %(now)s, due_noted_at = %(now)s, updated_at = %(now)s,
        not_before = case when t.not_before <= %(now)s then t.not_before end,
        version = t.version + 1
    where t.id = any(%(ids)s) and t.state = 'retry' and t.due_at > %(now)s
    returning t.id, t.project_id, t.agent_id, t.attempts
), journaled as ({
    journal.insert_without_states(
        "made_due",
        kind=f"'{Kind.TASK_DUE}'",
        subject="task",
        data="jsonb_build_object('attempt', m.attempts + 1, 'by_hand', true) || %(note)s",
    )
}) select id from made_due"""


def retry_now(ids: Iterable[UUID], *, note: str = "", stamp: Stamp) -> list[UUID]:
    """Make these retries due now; return the ids of those that were still waiting."""
    known = TrustedCaller(stamp.actor, request_id=stamp.request_id)
    rows = sql.run(RETRY_NOW, ids=list(ids), note=Jsonb(noted(note)), now=stamp.at, **known.params)
    return [row["id"] for row in rows]


UNBLOCK = f"""with {TrustedCaller.cte}, freed as ({resume_skipped()}), journaled as ({
    journal.insert(
        "freed",
        kind=f"case m.state when '{TaskState.QUEUED}' then '{Kind.TASK_UNBLOCKED}' "
        f"when '{TaskState.ESCALATED}' then '{Kind.TASK_ESCALATED}' else '{Kind.TASK_BLOCKED}' end",
        subject="task",
        from_state="case when m.state <> m.from_state then m.from_state end",
        to_state="case when m.state <> m.from_state then m.state end",
        data="jsonb_build_object('reason', "
        f"coalesce(m.blocked_reason, '{BlockedReason.DEPENDENCY_SKIPPED}')) || %(note)s",
    )
}) select * from freed"""


@sql.atomic
def unblock(ids: Iterable[UUID], *, note: str = "", stamp: Stamp) -> list[UUID]:
    """Unblock tasks that stayed blocked by a skipped need; return the ids of those that were."""
    # A task with other open needs waits for those, a checkpoint asks its question, and the others
    # are queued.
    asked = list(ids)
    blocked = Task.objects.filter(pk__in=asked, blocked_reason=BlockedReason.DEPENDENCY_SKIPPED)
    needed = Need.objects.filter(task__in=blocked).values_list("need_id", flat=True)
    lock_with_questions({*blocked.values_list("pk", flat=True), *needed})
    known = TrustedCaller(stamp.actor, request_id=stamp.request_id)
    rows = sql.run(UNBLOCK, ids=asked, note=Jsonb(noted(note)), now=stamp.at, **known.params)
    ready = [row for row in rows if row["state"] == TaskState.ESCALATED]
    checkpoints.open_questions(ready, stamp=stamp)
    return [row["id"] for row in rows]


SKIP = f"""with {TrustedCaller.cte},
moved as ({task_to(TaskState.SKIPPED, where="t.id = any(%(ids)s)")}),
journaled as ({
    journal.insert("moved", kind=f"'{Kind.TASK_SKIPPED}'", subject="task", data="%(note)s")
})
select id from moved"""


@sql.atomic
def skip(
    ids: Iterable[UUID], *, dependents: str = Dependents.CONTINUE, note: str = "", stamp: Stamp
) -> list[UUID]:
    """Skip these tasks; return the ids of all that were skipped, dependents included.

    Dependents continue as if the tasks were done (`continue`), stay blocked (`block`), or are
    skipped too (`skip`).
    """
    known = TrustedCaller(stamp.actor, request_id=stamp.request_id)
    held = lock_with_questions(ids)
    rows = sql.run(SKIP, ids=held, note=Jsonb(noted(note)), now=stamp.at, **known.params)
    skipped = [row["id"] for row in rows]
    skipped += settle_dependents(skipped, dependents, stamp=stamp)
    lifecycle.withdraw(skipped, stamp=stamp)
    checkpoints.open_questions_after(skipped, stamp=stamp)
    return skipped


COMPLETE = f"""with {TrustedCaller.cte}, moved as ({
    task_to(TaskState.DONE, where=f"t.id = any(%(ids)s) and t.state <> '{TaskState.RUNNING}'")
}), journaled as ({
    journal.insert("moved", kind=f"'{Kind.TASK_COMPLETED}'", subject="task", data="%(data)s")
})
select id from moved"""


@sql.atomic
def complete_ticked(ids: Iterable[UUID], *, note: str, stamp: Stamp) -> list[UUID]:
    """Complete waiting tasks that their plan's file marks as done; return the ids of those."""
    # No attempt has done them, so no agent is credited with them.
    known = TrustedCaller(stamp.actor, request_id=stamp.request_id)
    data = Jsonb({"ticked": True} | noted(note))
    rows = sql.run(COMPLETE, ids=lock_with_questions(ids), data=data, now=stamp.at, **known.params)
    done = [row["id"] for row in rows]
    needs.meet(done, caller=known, now=stamp.at)
    checkpoints.open_questions_after(done, stamp=stamp)
    return done


@dataclass(frozen=True, slots=True)
class AbortCounts:
    """The effects of an abort: tasks that end, running tasks that are asked to stop, questions
    that are withdrawn, and other tasks that stay blocked."""

    waiting: int
    running: int
    questions: int
    dependents: int

    @property
    def any(self) -> bool:
        return bool(self.waiting or self.running)


def count_abort(chosen: QuerySet[Task]) -> AbortCounts:
    rows = chosen.order_by().exclude(state__in=FINAL)
    runs = Q(state=TaskState.RUNNING)
    counts = rows.aggregate(
        waiting=Count("pk", filter=~runs),
        running=Count("pk", filter=runs & Q(abort_requested_at=None)),
    )
    ended = rows.values("pk")
    others = Task.objects.filter(needs__need__in=ended).exclude(state__in=FINAL)
    return AbortCounts(
        **counts,
        questions=Escalation.objects.open().filter(task__in=ended).count(),
        dependents=others.exclude(pk__in=ended).values("pk").distinct().count(),
    )


@sql.atomic
def abort(
    ids: Iterable[UUID], *, spare_asked: bool = False, reason: str = "", stamp: Stamp
) -> dict[UUID, bool]:
    """Abort tasks and withdraw the questions about them: see `ledger.tasks.abort`."""
    # With `spare_asked`, tasks that a person is asked about are left as they are.
    held = lock_with_questions(ids)
    if spare_asked:
        asked = Task.objects.filter(pk__in=held).filter(ASKED).values_list("pk", flat=True)
        held = sorted(set(held) - set(asked))
    aborted = tasks.abort(held, reason=reason, stamp=stamp)
    lifecycle.withdraw([id for id, done in aborted.items() if done], stamp=stamp)
    return aborted


@transaction.atomic
def change(task_id: UUID, asked: Change, *, version: int, note: str = "", stamp: Stamp) -> Row:
    """Change a task that is not over; raises what `tasks.change` raises."""
    # Its open question goes to its new agent: otherwise the previous agent would see the question
    # and could withdraw it.
    if asked.agent is None:
        return tasks.change(task_id, asked, version=version, note=note, stamp=stamp)
    lock_with_questions([task_id])
    row = tasks.change(task_id, asked, version=version, note=note, stamp=stamp)
    lifecycle.hand_over(task_id, to=asked.agent, stamp=stamp)
    return row
