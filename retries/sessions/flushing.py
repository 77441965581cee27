"""Flush a session: wait for its lock a bounded time, and process everything that is pending."""

import time
from threading import BoundedSemaphore
from uuid import UUID

from django.conf import settings

from ledger.errors import Refusal
from retries.sessions.processing import process_session

# Requests that may flush at once in this process: a quarter of its web threads.
THREADS = settings.TENFOUR["WEB_THREADS"]
WAITERS = BoundedSemaphore(max(1, THREADS // 4))


class FlushExhausted(Refusal):
    """Session was not flushed"""

    code = "flush_exhausted"
    retryable = True
    hint = "Wait a moment and send the same request again."


def flush_session_message_blocking(session_id: UUID) -> int:
    """Process all pending messages and return their number; raises FlushExhausted."""
    # Another worker may hold the session's lock for longer than the tries that the settings allow.
    tries: int = settings.TENFOUR["SESSION_MESSAGE_FLUSH_MAX_RETRIES"]
    wait_s = settings.TENFOUR["SESSION_MESSAGE_SESSION_LOCK_WAIT_SECONDS"]
    for number in range(tries):
        if number:
            time.sleep(wait_s)
        processed = process_session(session_id)
        if processed is not None:
            return processed
    raise FlushExhausted(
        f"Another worker holds the session's lock; gave up after {tries} retries.",
        tries=tries,
        retry_after_s=wait_s,
    )


def flush_from_web(session_id: UUID) -> int:
    """Flush for a request; raises FlushExhausted at once if a quarter of the threads flush."""
    if not WAITERS.acquire(blocking=False):
        raise FlushExhausted(
            "Too many requests are flushing sessions on this server.", tries=0, retry_after_s=1
        )
    try:
        return flush_session_message_blocking(session_id)
    finally:
        WAITERS.release()
