"""Move the task of an escalation as its answer says, and undo that move."""

from datetime import datetime
from uuid import UUID

from django.db.models import Subquery
from psycopg.types.json import Jsonb

from ledger import journal, needs
from ledger.database import sql
from ledger.database.sql import Row
from ledger.errors import InvalidTransition
from ledger.journal import Kind, Stamp
from ledger.models import Attempt
from ledger.moves import task_to
from ledger.states import BlockedReason, Proof, TaskState
from ledger.tasks import fetch_task
from ledger.tokens import TrustedCaller
from retries.models import Escalation
from retries.states import Answer, Reason
from retries.tasks import dependents

WAITS_FOR_ANSWER = f"""t.id = %(id)s
    and (t.state = '{TaskState.ESCALATED}' or t.blocked_reason = '{BlockedReason.REPORTED}')"""

# The attempts that an answer grants: a new round, one guided attempt, or the one that the
# question used. Only the first two begin a round: an agent that withdraws its questions, or lets
# them expire, must not release its task without end. A checkpoint's question used no attempt, but
# `max_attempts` may have been lowered while it was open. A budget that was used up says nothing
# about attempts, so the task keeps those that it has.
KEEP_ATTEMPTS = "attempt_limit = greatest(t.attempts + 1, t.attempt_limit)"
GRANTS = {
    Answer.RETRY: "releases = 0, retry_count = 0, attempt_limit = t.attempts + t.max_attempts",
    Answer.FIX: "releases = 0, attempt_limit = t.attempts + 1",
    Answer.ANSWER: "attempt_limit = greatest(t.attempts + 1, t.attempt_limit + %(cost)s::int)",
    Answer.GRANT: KEEP_ATTEMPTS,
}
UNDOABLE = (Answer.RETRY, Answer.FIX)
ENDS = {
    Answer.SKIP: (TaskState.SKIPPED, Kind.TASK_SKIPPED),
    Answer.ABORT: (TaskState.ABORTED, Kind.TASK_ABORTED),
    Answer.ACCEPT: (TaskState.DONE, Kind.TASK_COMPLETED),
}
SETS = {Answer.ACCEPT: f"proof = '{Proof.PERSON}'"}


def move_statement(
    to: TaskState, kind: Kind, *, where: str = WAITS_FOR_ANSWER, sets: str = "", reason: str = ""
) -> str:
    moved = task_to(to, where=where, sets=sets, reason=reason or "null")
    events = journal.insert("moved", kind=f"'{kind}'", subject="task", data="%(data)s")
    return f"with {TrustedCaller.cte}, moved as ({moved}), events as ({events}) select * from moved"


REQUEUE_NOW = {
    action: move_statement(TaskState.QUEUED, Kind.TASK_REQUEUED, sets=grant)
    for action, grant in GRANTS.items()
}
REQUEUE_LATER = {
    action: move_statement(
        TaskState.RETRY,
        Kind.TASK_REQUEUED,
        sets=f"due_at = %(due_at)s, due_noted_at = null, {grant}",
    )
    for action, grant in GRANTS.items()
    if action in UNDOABLE
}
RETRY_LATER_AT_LIMIT = move_statement(
    TaskState.RETRY,
    Kind.TASK_REQUEUED,
    sets=f"due_at = %(due_at)s, due_noted_at = null, {KEEP_ATTEMPTS}",
)
END = {
    action: move_statement(to, kind, sets=SETS.get(action, ""))
    for action, (to, kind) in ENDS.items()
}
FAIL = move_statement(TaskState.FAILED, Kind.TASK_FAILED)


def requeue(
    escalation: Escalation, action: Answer, *, due_at: datetime | None = None, stamp: Stamp
) -> Row:
    """Queue the task again with the granted attempts, or at `due_at` to leave time for an undo."""
    # The worker of the last attempt has precedence if it claims before another does: see `claims`.
    if escalation.reason == Reason.BUDGET_USED and action == Answer.RETRY:
        statement = REQUEUE_NOW[Answer.GRANT] if due_at is None else RETRY_LATER_AT_LIMIT
    else:
        statement = (REQUEUE_NOW if due_at is None else REQUEUE_LATER)[action]
    row = move(escalation, statement, action, due_at=due_at, stamp=stamp)
    last = Attempt.objects.filter(task_id=row["id"], number=row["attempts"]).exclude(worker_id="")
    former = Subquery(last.values("worker_id"))
    Escalation.objects.filter(pk=escalation.pk).update(offered_to=former)
    return row


def end(escalation: Escalation, action: Answer, *, choice: str, stamp: Stamp) -> list[UUID]:
    """Skip, abort or accept the task; return the ids of the dependents skipped with it."""
    row = move(escalation, END[action], action, stamp=stamp)
    if action == Answer.ACCEPT:
        caller = TrustedCaller(stamp.actor, request_id=stamp.request_id)
        needs.meet([row["id"]], caller=caller, now=stamp.at)
    if action != Answer.SKIP:
        return []
    return dependents.settle_dependents([row["id"]], choice, stamp=stamp)


def fail(escalation: Escalation, *, stamp: Stamp) -> Row:
    # The caller inserts the dead letter.
    return move(escalation, FAIL, "fail", stamp=Stamp(stamp.actor, stamp.at, ""))


def move(
    escalation: Escalation,
    statement: str,
    answer: str,
    *,
    due_at: datetime | None = None,
    stamp: Stamp,
) -> Row:
    assert escalation.task_id is not None
    rows = sql.run(
        statement,
        id=escalation.task_id,
        due_at=due_at,
        cost=int(escalation.is_of_agent),  # the question of a checkpoint uses no attempt
        data=Jsonb(
            {"answer": answer, "escalation": str(escalation.pk)}
            | ({"proof": str(Proof.PERSON)} if answer == Answer.ACCEPT else {})
        ),
        now=stamp.at,
        **TrustedCaller(stamp.actor, request_id=stamp.request_id).params,
    )
    if not rows:
        row = fetch_task(escalation.task_id)
        raise InvalidTransition(
            f"The task is {row['state']} and does not wait for an answer.",
            current=row["state"],
            allowed=[],
        )
    return rows[0]


# ---- undo

# No attempt has started since, and `due_at` is still the one that the answer set.
CAN_UNDO = f"""t.id = %(id)s and t.state = '{TaskState.RETRY}' and t.attempts = %(attempts)s
    and t.due_at = %(due_at)s and t.due_at > %(now)s"""
RESTORE = "retry_count = %(retry_count)s, attempt_limit = %(attempt_limit)s, due_at = null"
UNDO = {
    TaskState.ESCALATED: move_statement(
        TaskState.ESCALATED, Kind.TASK_ANSWER_UNDONE, where=CAN_UNDO, sets=RESTORE
    ),
    TaskState.BLOCKED: move_statement(
        TaskState.BLOCKED,
        Kind.TASK_ANSWER_UNDONE,
        where=CAN_UNDO,
        sets=RESTORE,
        reason=f"'{BlockedReason.REPORTED}'",
    ),
}


def undo(escalation: Escalation, *, stamp: Stamp) -> bool:
    """Return the task to its state before the answer; False if it has moved on."""
    was = TaskState.BLOCKED if escalation.reason == Reason.BLOCKED else TaskState.ESCALATED
    rows = sql.run(
        UNDO[was],
        id=escalation.task_id,
        attempts=escalation.attempts,
        retry_count=escalation.retry_count,
        attempt_limit=escalation.attempt_limit,
        due_at=escalation.undo_until,
        data=Jsonb({"escalation": str(escalation.pk)}),
        now=stamp.at,
        **TrustedCaller(stamp.actor, request_id=stamp.request_id).params,
    )
    return bool(rows)
