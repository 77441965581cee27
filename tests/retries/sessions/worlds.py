"""Sessions to test with, and the jobs that were sent for them."""

import base64
import json
from typing import Any
from uuid import UUID

from django.db import connection

from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Session
from ledger.sessions import storing
from ledger.sessions.message_parts import Text
from ledger.sessions.storing import NewMessage, Stored
from ledger.tokens import TrustedCaller
from retries.sessions.buffering import connect_redis
from tests.factories import make_agent

QUEUE = "tenfour:celery"


def make_session(agent: Agent | None = None, **more: Any) -> Session:
    return storing.create_session(agent or make_agent(), stamp=Stamp(SYSTEM), **more)[0]


def store(session: Session, count: int = 1, text: str = "Go on") -> Stored:
    """Store messages without announcing them."""
    messages = [NewMessage("user", [Text(f"{text} {number}")]) for number in range(count)]
    caller = TrustedCaller(SYSTEM, project_id=session.project_id)
    return storing.store_messages(session.id, messages, caller=caller)


NAMES = ("pending", "running", "success", "failed", "disabled")


def states(session: Session) -> dict[str, int]:
    """Return the number of messages by state, counted and compared with the session's row."""
    with connection.cursor() as cursor:  # one statement, because workers may be writing
        cursor.execute(
            """select state, count(*), s.pending_count, s.running_count, s.success_count,
                s.failed_count, s.message_count
            from ledger_message m join ledger_session s on s.id = m.session_id
            where s.id = %s group by state, s.id""",
            [session.id],
        )
        rows = cursor.fetchall()
    session.refresh_from_db()
    found = {row[0]: row[1] for row in rows}
    *counted, total = rows[0][2:]
    stored = dict(zip(NAMES, [*counted, total - sum(counted)], strict=True))
    assert {name: count for name, count in stored.items() if count} == found
    return found


def sent_jobs(session_id: UUID | None = None) -> list[dict[str, Any]]:
    """Return the jobs that wait in the queue: name, eta, and event; oldest first."""
    jobs = []
    for raw in reversed(connect_redis().lrange(QUEUE, 0, -1)):
        message = json.loads(raw)
        kwargs = json.loads(base64.b64decode(message["body"]))[1]
        event = kwargs.get("event", {})
        if session_id is None or event.get("session_id") == str(session_id):
            headers = message["headers"]
            jobs.append({"name": headers["task"], "eta": headers["eta"], "event": event})
    return jobs


def forget_jobs() -> None:
    connect_redis().delete(QUEUE)
