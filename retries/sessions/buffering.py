"""Ring for messages: set the buffer's timer, or have them processed at once.

Redis only carries announcements. If it is away, the sweep finds the waiting messages.
"""

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any
from uuid import UUID

import redis
from celery import Celery
from django.conf import settings
from django.db import transaction
from kombu.exceptions import OperationalError
from redis.backoff import NoBackoff
from redis.retry import Retry

from ledger.models import Message, Session
from ledger.sessions.storing import Stored
from ledger.states import MessageState

logger = logging.getLogger(__name__)

AWAY = (redis.RedisError, OperationalError, OSError)
INSERT_JOB = "retries.jobs.insert_new_message"
BUFFER_JOB = "retries.jobs.buffer_new_message"
RETRY_S = 1
GIVE_UP_S = 0.5


@dataclass(frozen=True, slots=True)
class InsertNewMessage:
    """The event of a new message.

    With `skip_latest_check`, which only the buffer's timer sets, it stands for whatever is pending;
    otherwise it is ignored once a newer message has come.
    """

    project_id: str
    session_id: str
    message_id: str
    skip_latest_check: bool = False

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "InsertNewMessage":
        # Bodies of older versions lack the flag.
        return cls(
            body["project_id"],
            body["session_id"],
            body["message_id"],
            bool(body.get("skip_latest_check", False)),
        )

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def flagged(self) -> "InsertNewMessage":
        return InsertNewMessage(self.project_id, self.session_id, self.message_id, True)


@cache
def connect_redis() -> redis.Redis:
    # Give up soon, because no request may wait for Redis.
    return redis.Redis.from_url(
        settings.REDIS_URL,
        socket_timeout=GIVE_UP_S,
        socket_connect_timeout=GIVE_UP_S,
        retry=Retry(NoBackoff(), 1),
    )


@cache
def queue() -> Celery:
    # A web server has no worker's application.
    app = Celery("tenfour", set_as_current=False)
    app.config_from_object("django.conf:settings", namespace="CELERY")
    return app


def check_buffer_timer_or_set(
    project_id: UUID | str, session_id: UUID | str, ttl_seconds: int
) -> bool:
    """Return true if this call set the session's timer, false if one was running."""
    key = f"buffer_timer.{project_id}.{session_id}"
    return bool(connect_redis().set(key, "1", nx=True, ex=ttl_seconds))


def announce(stored: Stored) -> None:
    """Announce stored messages once they are committed; never fails."""
    if not stored.message_ids or not stored.pending:
        return
    most = settings.TENFOUR["SESSION_MESSAGE_BUFFER_MAX_TURNS"]
    if stored.pending < most and not stored.needs_timer:
        return
    event = InsertNewMessage(
        str(stored.project_id), str(stored.session_id), str(stored.message_ids[-1])
    )
    transaction.on_commit(lambda: start_processing(event, stored.pending))


def announce_retry(session: Session) -> None:
    # Errors only go to the log: the sweep will find the messages.
    event = InsertNewMessage(str(session.project_id), str(session.pk), "", skip_latest_check=True)

    def send() -> None:
        try:
            connect_redis().ping()
            send_job(BUFFER_JOB, event)
        except AWAY as error:
            logger.info("retry not announced, the sweep will find it: %s", error)

    transaction.on_commit(send)


def start_processing(event: InsertNewMessage, pending: int) -> bool:
    """Have a full buffer processed, or else set its timer; return whether a job was sent."""
    # Only the first message of a window sets the timer, and later ones do not extend it.
    limits = settings.TENFOUR
    ttl = limits["SESSION_MESSAGE_BUFFER_TTL_SECONDS"]
    try:
        if pending >= limits["SESSION_MESSAGE_BUFFER_MAX_TURNS"]:
            connect_redis().ping()  # fails sooner than the broker's own connection does
            return send_job(BUFFER_JOB, event)
        if check_buffer_timer_or_set(event.project_id, event.session_id, ttl):
            return send_job(BUFFER_JOB, event.flagged(), countdown=ttl)
    except AWAY as error:
        logger.info("messages not announced, the sweep will find them: %s", error)
    return False


def send_job(name: str, event: InsertNewMessage, *, countdown: float = 0) -> bool:
    queue().send_task(
        name, kwargs={"event": event.as_json()}, countdown=countdown or None, retry=False
    )
    return True


# ---- what the jobs do


def read_buffer(event: InsertNewMessage) -> tuple[int, bool]:
    """Return how many messages of the event's session are pending, and whether to continue."""
    # A normal event is over if a newer message is pending, because that one has its own event.
    pending = (
        Session.objects.filter(pk=event.session_id, project_id=event.project_id)
        .values_list("pending_count", flat=True)
        .first()
    )
    if not pending:
        return 0, False
    if event.skip_latest_check:
        return pending, True
    newest = (
        Message.objects.filter(session_id=event.session_id, state=MessageState.PENDING)
        .order_by("-order")
        .values_list("id", flat=True)
        .first()
    )
    return pending, str(newest) == event.message_id


def insert_new_message(event: InsertNewMessage) -> None:
    pending, goes_on = read_buffer(event)
    if not goes_on:
        return
    if event.skip_latest_check:  # its timer has run out already
        send_job(BUFFER_JOB, event)
    else:
        start_processing(event, pending)
