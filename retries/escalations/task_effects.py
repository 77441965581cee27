"""What an answer does to its task: the moves, and the one that takes an answer back."""

from datetime import datetime
from uuid import UUID

from django.db.models import Subquery
from psycopg.types.json import Jsonb

from ledger import journal, sql
from ledger.errors import InvalidTransition
from ledger.journal import Actor, Kind
from ledger.models import Attempt
from ledger.moves import task_to
from ledger.sql import Row
from ledger.states import BlockedReason, TaskState
from ledger.tasks import fetch_task
from ledger.tokens import TrustedCaller
from retries import dependents
from retries.models import Escalation
from retries.states import Answer, Reason

ASKED = f"""t.id = %(id)s
    and (t.state = '{TaskState.ESCALATED}' or t.blocked_reason = '{BlockedReason.REPORTED}')"""

# what goes on is granted attempts: a round, one that is guided, or the one that the question cost
GRANTS = {
    Answer.RETRY: "retry_count = 0, attempt_limit = t.attempts + t.max_attempts",
    Answer.FIX: "attempt_limit = t.attempts + 1",
    Answer.ANSWER: "attempt_limit = t.attempt_limit + %(cost)s::int",
}
UNDOABLE = (Answer.RETRY, Answer.FIX)
ENDS = {
    Answer.SKIP: (TaskState.SKIPPED, Kind.TASK_SKIPPED),
    Answer.ABORT: (TaskState.ABORTED, Kind.TASK_ABORTED),
}


def statement(
    to: TaskState, kind: Kind, *, where: str = ASKED, sets: str = "", reason: str = ""
) -> str:
    moved = task_to(to, where=where, sets=sets, reason=reason or "null")
    told = journal.insert("moved", kind=f"'{kind}'", subject="task", data="%(data)s")
    return f"with {TrustedCaller.cte}, moved as ({moved}), told as ({told}) select * from moved"


def granted(grant: str) -> str:
    return f"releases = 0, {grant}"


AT_ONCE = {
    action: statement(TaskState.QUEUED, Kind.TASK_REQUEUED, sets=granted(grant))
    for action, grant in GRANTS.items()
}
LATER = {
    action: statement(
        TaskState.RETRY,
        Kind.TASK_REQUEUED,
        sets=f"due_at = %(due_at)s, due_noted_at = null, {granted(grant)}",
    )
    for action, grant in GRANTS.items()
    if action in UNDOABLE
}
ENDED = {action: statement(to, kind) for action, (to, kind) in ENDS.items()}
FAILED = statement(TaskState.FAILED, Kind.TASK_FAILED)


def go_on(
    escalation: Escalation,
    action: Answer,
    *,
    due_at: datetime | None = None,
    actor: Actor,
    now: datetime,
    request_id: str = "",
) -> Row:
    """Queue the task again with what was granted; with `due_at` it waits so long for an undo.

    The worker that had it last gets it first, if it asks before another does: see `claims`.
    """
    table = AT_ONCE if due_at is None else LATER
    row = move(
        escalation,
        table[action],
        action,
        due_at=due_at,
        actor=actor,
        now=now,
        request_id=request_id,
    )
    last = Attempt.objects.filter(task_id=row["id"], number=row["attempts"]).exclude(worker_id="")
    former = Subquery(last.values("worker_id"))
    Escalation.objects.filter(pk=escalation.pk).update(offered_to=former)
    return row


def end(
    escalation: Escalation,
    action: Answer,
    *,
    choice: str,
    actor: Actor,
    now: datetime,
    request_id: str = "",
) -> list[UUID]:
    """Skip or abort the task; the ids of the dependents that were skipped with it."""
    row = move(escalation, ENDED[action], action, actor=actor, now=now, request_id=request_id)
    if action != Answer.SKIP:
        return []
    return dependents.settle_dependents(
        [row["id"]], choice, actor=actor, now=now, request_id=request_id
    )


def fail(escalation: Escalation, *, actor: Actor, now: datetime) -> Row:
    """Give the task up; the caller writes its dead letter."""
    return move(escalation, FAILED, "fail", actor=actor, now=now, request_id="")


def move(
    escalation: Escalation,
    text: str,
    answer: str,
    *,
    due_at: datetime | None = None,
    actor: Actor,
    now: datetime,
    request_id: str,
) -> Row:
    assert escalation.task_id is not None
    rows = sql.run(
        text,
        id=escalation.task_id,
        due_at=due_at,
        cost=int(escalation.is_of_agent),  # what a checkpoint asks costs none
        data=Jsonb({"answer": answer, "escalation": str(escalation.pk)}),
        now=now,
        **TrustedCaller(actor, request_id=request_id).params,
    )
    if not rows:
        row = fetch_task(escalation.task_id)
        raise InvalidTransition(
            f"The task is {row['state']}: it waits for no answer.",
            current=row["state"],
            allowed=[],
        )
    return rows[0]


# ---- taken back

# no attempt was made since, and nobody has hurried it: it is the very wait that the answer began
STILL_WAITS = f"""t.id = %(id)s and t.state = '{TaskState.RETRY}' and t.attempts = %(attempts)s
    and t.due_at = %(due_at)s and t.due_at > %(now)s"""
RESTORED = "retry_count = %(retry_count)s, attempt_limit = %(attempt_limit)s, due_at = null"
UNDO = {
    TaskState.ESCALATED: statement(
        TaskState.ESCALATED, Kind.TASK_ANSWER_UNDONE, where=STILL_WAITS, sets=RESTORED
    ),
    TaskState.BLOCKED: statement(
        TaskState.BLOCKED,
        Kind.TASK_ANSWER_UNDONE,
        where=STILL_WAITS,
        sets=RESTORED,
        reason=f"'{BlockedReason.REPORTED}'",
    ),
}


def undo(escalation: Escalation, *, actor: Actor, now: datetime, request_id: str) -> bool:
    """Bring the task back to where it was asked about; False where it has gone on."""
    was = TaskState.BLOCKED if escalation.reason == Reason.BLOCKED else TaskState.ESCALATED
    rows = sql.run(
        UNDO[was],
        id=escalation.task_id,
        attempts=escalation.attempts,
        retry_count=escalation.retry_count,
        attempt_limit=escalation.attempt_limit,
        due_at=escalation.undo_until,
        data=Jsonb({"escalation": str(escalation.pk)}),
        now=now,
        **TrustedCaller(actor, request_id=request_id).params,
    )
    return bool(rows)
