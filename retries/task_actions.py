"""What people do to tasks: try again now, go on without, stop. Bulk is the verb."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Count, Q, QuerySet
from django.utils import timezone

from ledger import journal, sql, tasks
from ledger.journal import Actor, Kind
from ledger.models import Need, Task
from ledger.moves import resume_skipped, task_to
from ledger.states import FINAL, BlockedReason, TaskState
from ledger.tokens import TrustedCaller
from retries import checkpoints
from retries.dependents import hold, settle
from retries.escalations import lifecycle
from retries.models import Escalation
from retries.states import Dependents

# about which a person is asked
ASKED = Q(state=TaskState.ESCALATED) | Q(blocked_reason=BlockedReason.REPORTED)

RETRY_NOW = f"""with {TrustedCaller.cte}, hurried as (
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
    known = TrustedCaller(actor)
    rows = sql.run(RETRY_NOW, ids=list(ids), now=now or timezone.now(), **known.params)
    return [row["id"] for row in rows]


UNBLOCK = f"""with {TrustedCaller.cte}, freed as ({resume_skipped()}), told as ({
    journal.insert(
        "freed",
        kind=f"case m.state when '{TaskState.QUEUED}' then '{Kind.TASK_UNBLOCKED}' "
        f"when '{TaskState.ESCALATED}' then '{Kind.TASK_ESCALATED}' else '{Kind.TASK_BLOCKED}' end",
        subject="task",
        from_state="case when m.state <> m.from_state then m.from_state end",
        to_state="case when m.state <> m.from_state then m.state end",
        data="jsonb_build_object('reason', "
        f"coalesce(m.blocked_reason, '{BlockedReason.DEPENDENCY_SKIPPED}'))",
    )
}) select * from freed"""


@sql.atomic
def unblock(
    ids: Iterable[UUID], *, actor: Actor, now: datetime | None = None, request_id: str = ""
) -> list[UUID]:
    """Let these tasks go on that stayed blocked without what was skipped; those that were.

    One that needs something else waits for that, a checkpoint asks what it asks, and the rest are
    queued.
    """
    now, asked = now or timezone.now(), list(ids)
    held = Task.objects.filter(pk__in=asked, blocked_reason=BlockedReason.DEPENDENCY_SKIPPED)
    needed = Need.objects.filter(task__in=held).values_list("need_id", flat=True)
    hold({*held.values_list("pk", flat=True), *needed})
    known = TrustedCaller(actor, request_id=request_id)
    rows = sql.run(UNBLOCK, ids=asked, now=now, **known.params)
    ready = [row for row in rows if row["state"] == TaskState.ESCALATED]
    checkpoints.ask(ready, actor=actor, now=now, request_id=request_id)
    return [row["id"] for row in rows]


SKIP = f"""with {TrustedCaller.cte},
moved as ({task_to(TaskState.SKIPPED, where="t.id = any(%(ids)s)")}),
told as ({journal.insert("moved", kind=f"'{Kind.TASK_SKIPPED}'", subject="task")})
select id from moved"""


@sql.atomic
def skip(
    ids: Iterable[UUID],
    *,
    dependents: str = Dependents.CONTINUE,
    actor: Actor,
    now: datetime | None = None,
) -> list[UUID]:
    """Go on without these tasks; the ids of those that could be skipped, and with `skip` of what
    was skipped with them.

    What depends on them goes on as if they were done (`continue`), stays blocked (`block`), or is
    skipped too (`skip`).
    """
    now = now or timezone.now()
    gone = [
        row["id"] for row in sql.run(SKIP, ids=hold(ids), now=now, **TrustedCaller(actor).params)
    ]
    gone += settle(gone, dependents, actor=actor, now=now)
    lifecycle.withdraw(gone, actor=actor, now=now)
    checkpoints.ask_after(gone, actor=actor, now=now)
    return gone


@dataclass(frozen=True, slots=True)
class Stops:
    """How many tasks an abort ends, how many that run are told to stop, how many questions it
    withdraws, and how many other tasks stay blocked because of it."""

    waiting: int
    running: int
    questions: int
    dependents: int

    @property
    def any(self) -> bool:
        return bool(self.waiting or self.running)


def stops(chosen: QuerySet[Task]) -> Stops:
    """What an abort of these would do now."""
    rows = chosen.order_by().exclude(state__in=FINAL)
    runs = Q(state=TaskState.RUNNING)
    counts = rows.aggregate(
        waiting=Count("pk", filter=~runs),
        running=Count("pk", filter=runs & Q(abort_requested_at=None)),
    )
    ended = rows.values("pk")
    others = Task.objects.filter(needs__need__in=ended).exclude(state__in=FINAL)
    return Stops(
        **counts,
        questions=Escalation.objects.open().filter(task__in=ended).count(),
        dependents=others.exclude(pk__in=ended).values("pk").distinct().count(),
    )


@sql.atomic
def abort(
    ids: Iterable[UUID],
    *,
    spare_asked: bool = False,
    reason: str = "",
    actor: Actor,
    now: datetime | None = None,
    request_id: str = "",
) -> dict[UUID, bool]:
    """Stop these tasks, and withdraw the questions about them: see `ledger.tasks.abort`.

    With `spare_asked` those stay about which a person is asked.
    """
    now = now or timezone.now()
    held = hold(ids)
    if spare_asked:
        asked = Task.objects.filter(pk__in=held).filter(ASKED).values_list("pk", flat=True)
        held = sorted(set(held) - set(asked))
    stopped = tasks.abort(held, reason=reason, actor=actor, now=now, request_id=request_id)
    lifecycle.withdraw([id for id, done in stopped.items() if done], actor=actor, now=now)
    return stopped
