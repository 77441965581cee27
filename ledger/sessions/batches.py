"""Lock a session, take a batch from its buffer, write responses, and end the batch.

The lock is two columns of the session with an owner token, so that a lost Redis can't make two
workers own one session. Every write compares the token; it does nothing and raises LockLost if the
lock has run out.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection
from psycopg.types.json import Jsonb

from ledger.database import server_time, sql
from ledger.database.sql import Row
from ledger.errors import Refusal
from ledger.journal import Stamp, clock
from ledger.models import Message
from ledger.sessions import statements
from ledger.sessions.tools import WorkingTask, Worksheet
from ledger.states import BatchOutcome
from ledger.tokens import TrustedCaller

LOST_REASON = "The worker was lost in the middle of the batch."
REASON_LENGTH = 2000


class LockLost(Exception):
    """The session's lock has run out or belongs to another worker."""


class SessionLocked(Refusal):
    """Session is being processed"""

    code = "session_locked"
    retryable = True
    hint = "Wait a moment and send the same request again."


@dataclass(frozen=True, slots=True)
class Lock:
    """A held lock, and the session's row as it was when it was taken."""

    session_id: UUID
    token: UUID
    project_id: UUID
    agent_id: UUID
    tracker: str
    is_tracked: bool
    last_order: int
    pending: int
    running: int
    preferences: list[str]

    @property
    def caller(self) -> TrustedCaller:
        # The clock is the author of what a batch does.
        return TrustedCaller(clock("sessions"), project_id=self.project_id)


@dataclass(frozen=True, slots=True)
class TakenBatch:
    """A batch whose messages are running, oldest first."""

    id: UUID
    messages: list[Row]


def lock_ttl() -> int:
    ttl: int = settings.TENFOUR["SESSION_MESSAGE_PROCESSING_TIMEOUT_SECONDS"]
    return ttl


def take_lock(session_id: UUID) -> Lock | None:
    """Lock a session and return its lock; None if another worker holds it, or without the session.

    What a lost worker left behind is cleaned up first.
    """
    rows = sql.run(
        statements.TAKE_LOCK,
        session=session_id,
        ttl_s=lock_ttl(),
        in_transaction=connection.in_atomic_block,
    )
    if not rows:
        return None
    lock = lock_of(rows[0])
    if lock.running:
        recover_messages(lock)
    return lock


def lock_of(row: Row) -> Lock:
    return Lock(
        session_id=row["id"],
        token=row["lock_token"],
        project_id=row["project_id"],
        agent_id=row["agent_id"],
        tracker=row["tracker"],
        is_tracked=not row["disable_task_tracking"],
        last_order=row["message_count"],
        pending=row["pending_count"],
        running=row["running_count"],
        preferences=row["preferences"],
    )


def renew_lock(lock: Lock) -> bool:
    """Extend the lock; return False if it is lost."""
    return bool(
        sql.run(statements.RENEW_LOCK, session=lock.session_id, token=lock.token, ttl_s=lock_ttl())
    )


def release_lock(lock: Lock) -> None:
    # The lock may belong to another worker by now.
    sql.run(
        statements.RELEASE_LOCK,
        session=lock.session_id,
        token=lock.token,
        in_transaction=connection.in_atomic_block,
    )


def recover_messages(lock: Lock, *, now: datetime | None = None) -> int:
    """Return a lost worker's messages to the buffer, once; return how many were returned."""
    caller = TrustedCaller(clock("sessions"), project_id=lock.project_id)
    rows = sql.run(
        statements.RECOVER,
        session=lock.session_id,
        token=lock.token,
        reason=LOST_REASON,
        now=now or server_time.now(),
        **caller.params,
    )
    return int(rows[0]["pending"]) if rows else 0


def retry_failed(session_id: UUID, *, tracker: str | None = None, stamp: Stamp) -> int:
    """Return a session's failed messages to the buffer; return how many were returned.

    `tracker` reads the session from now on; None keeps the one that it has.
    """
    rows = sql.run(
        statements.RETRY_FAILED,
        session=session_id,
        tracker=tracker,
        now=stamp.at,
        **TrustedCaller(stamp.actor, request_id=stamp.request_id).params,
    )
    return int(rows[0]["pending"]) if rows else 0


def begin_batch(lock: Lock, *, most: int, last: int, now: datetime) -> TakenBatch | None:
    """Begin a batch of the oldest pending messages, up to the order `last`; None without any."""
    rows = sql.run(
        statements.BEGIN_BATCH,
        session=lock.session_id,
        token=lock.token,
        most=most,
        last=last,
        now=now,
        in_transaction=connection.in_atomic_block,
    )
    if not rows:
        return None
    return TakenBatch(rows[0]["batch_id"], sorted(rows, key=lambda row: int(row["order"])))


def load_worksheet(session_id: UUID, *, messages: int, preferences: Sequence[str]) -> Worksheet:
    tasks = [
        WorkingTask(row["description"], row["state"], row["progress"], row["id"], row["order"])
        for row in sql.run(statements.TASKS, session=session_id)
    ]
    return Worksheet(tasks, messages, list(preferences))


def write_response(
    lock: Lock,
    work: Worksheet,
    *,
    message_ids: Sequence[UUID],
    calls: int,
    batch_id: UUID | None,
    stamp: Stamp,
) -> None:
    """Write what one response did, as a whole; with `finish`, the batch's end as well.

    The worksheet's tasks have their ids and orders afterwards. Raises LockLost without a change.
    """
    is_finished = work.is_finished and batch_id is not None
    caller = TrustedCaller(stamp.actor, project_id=lock.project_id, request_id=stamp.request_id)
    rows = sql.run(
        statements.RESPOND,
        session=lock.session_id,
        token=lock.token,
        batch=batch_id,
        tasks=Jsonb([task_row(task, place) for place, task in enumerate(work.tasks, start=1)]),
        links=Jsonb(list(link_rows(work, message_ids))),
        preferences=Jsonb(work.preferences),
        calls=calls,
        running=len(message_ids) if is_finished else 0,
        finish=is_finished,
        now=stamp.at,
        **caller.params,
    )
    if not rows:
        raise LockLost
    inserted = rows[0]["inserted"] or {}
    for place, task in enumerate(work.tasks, start=1):
        if task.id is None:
            task.id = UUID(inserted[str(place)])
        task.order, task.is_changed = place, False


def task_row(task: WorkingTask, place: int) -> dict[str, Any]:
    return {
        "id": task.id,
        "order": place,
        "description": task.description,
        "progress": task.progress,
        "state": task.state,
        "changed": task.is_changed or task.order != place,
    }


def link_rows(work: Worksheet, message_ids: Sequence[UUID]) -> Iterable[dict[str, Any]]:
    places = {id(task): place for place, task in enumerate(work.tasks, start=1)}
    for index, task in work.places.items():
        yield {"id": message_ids[index], "order": places[id(task)] if task else None}


def end_batch(lock: Lock, batch_id: UUID, *, failure: str = "", now: datetime) -> None:
    """End a batch: its messages succeed, or fail with a reason; raises LockLost."""
    rows = sql.run(
        statements.END_BATCH,
        session=lock.session_id,
        token=lock.token,
        batch=batch_id,
        failed=bool(failure),
        outcome=BatchOutcome.FAILED.value if failure else BatchOutcome.SUCCESS.value,
        reason=failure[:REASON_LENGTH],
        now=now,
        **lock.caller.params,
    )
    if not rows:
        raise LockLost


def links_of_tasks(session_id: UUID) -> dict[UUID, list[int]]:
    links: dict[UUID, list[int]] = {}
    rows = Message.objects.filter(session_id=session_id, session_task__isnull=False)
    for task_id, order in rows.order_by("order").values_list("session_task_id", "order"):
        links.setdefault(task_id, []).append(order)
    return links
