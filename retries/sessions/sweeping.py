"""Find messages that no timer and no worker will process."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings

from ledger.database import sql
from ledger.models import Project
from ledger.sessions import batches
from retries.sessions import buffering
from retries.sessions.buffering import InsertNewMessage
from retries.sessions.processing import process_session

MOST = 500
UNPROCESSED = """select s.id, s.project_id, s.running_count,
        (select m.id from ledger_message m where m.session_id = s.id and m.state = 'pending'
            order by m."order" desc limit 1) as message_id
    from ledger_session s
    cross join lateral (
        select m.created_at from ledger_message m
        where m.session_id = s.id and m.state in ('pending', 'running')
        order by m."order" limit 1
    ) oldest
    where s.id in (select session_id from ledger_message where state in ('pending', 'running'))
        and (s.lock_until is null or s.lock_until <= clock_timestamp())
        and (s.running_count > 0 or oldest.created_at <= %(before)s)
        and (%(project)s::uuid is null or s.project_id = %(project)s)
    order by s.last_message_at limit %(most)s::int"""


def sweep_sessions(*, now: datetime, project: Project | None = None) -> dict[str, Any]:
    # A buffer is overdue if its timer was lost with Redis, or if its worker was lost in the middle
    # of a batch.
    ttl = settings.TENFOUR["SESSION_MESSAGE_BUFFER_TTL_SECONDS"]
    rows = sql.run(
        UNPROCESSED,
        before=now - timedelta(seconds=ttl),
        project=project.id if project else None,
        most=MOST,
    )
    recovered = announced = 0
    for row in rows:
        if row["running_count"]:
            recovered += recover_session(row["id"])
        if row["message_id"] or row["running_count"]:
            announced += announce_overdue(row["project_id"], row["id"], row["message_id"], ttl)
    return {"recovered": recovered, "announced": announced}


def recover_session(session_id: UUID) -> int:
    """Clean up after a lost worker; return 1, or 0 if another worker has the lock by now."""
    lock = batches.take_lock(session_id)
    if lock is None:
        return 0
    batches.release_lock(lock)
    return 1


def announce_overdue(
    project_id: UUID, session_id: UUID, message_id: UUID | None, ttl_seconds: int
) -> int:
    # The timer allows at most one job in its window.
    event = InsertNewMessage(str(project_id), str(session_id), str(message_id or ""), True)
    try:
        if not buffering.check_buffer_timer_or_set(project_id, session_id, ttl_seconds):
            return 0
        buffering.send_job(buffering.BUFFER_JOB, event)
    except buffering.AWAY:
        process_session(session_id)
    return 1
