"""Count the jobs that expired before a worker could run them, and log their number once a minute.

Celery logs a line for each, which calls it revoked. A job of the clock that expired does no harm:
the next one does its work. But a worker whose own clock is ahead drops jobs that were just sent.
"""

import logging
import time
from contextlib import suppress
from threading import Lock, Thread

from django.db import Error, connection

LOG_EVERY_S = 60
# how far this host's clock may be ahead of PostgreSQL's
MOST_AHEAD_S = 2

logger = logging.getLogger(__name__)


class ExpiredJobs:
    """The number of expired jobs since the last line in the log."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.count = 0
        self.first_at = 0.0

    def note(self, now: float) -> None:
        with self.lock:
            self.first_at = self.first_at if self.count else now
            self.count += 1

    def take(self, now: float, *, after_s: float) -> int:
        """Return the count and reset it if the first job expired `after_s` ago; otherwise 0."""
        with self.lock:
            if now - self.first_at < after_s:
                return 0
            found, self.count = self.count, 0
            return found


expired = ExpiredJobs()


def note_expired_job() -> None:
    expired.note(time.monotonic())


def log_expired_jobs(*, after_s: float = LOG_EVERY_S) -> Thread | None:
    # In a thread, because this asks PostgreSQL for the time.
    count = expired.take(time.monotonic(), after_s=after_s)
    if not count:
        return None
    thread = Thread(target=log_count, args=(count,), daemon=True)
    thread.start()
    return thread


def log_count(count: int) -> None:
    jobs = "1 job" if count == 1 else f"{count} jobs"
    text = f"{jobs} expired before this worker could run them. The clock's next jobs do their work."
    ahead_s = 0.0
    with suppress(Error):
        ahead_s = measure_clock()
    if ahead_s <= MOST_AHEAD_S:
        logger.info(text)
        return
    logger.warning(
        "%s This host's clock is %.0f s ahead of PostgreSQL's, so jobs expire too early: "
        "synchronize it with a time server.",
        text,
        ahead_s,
    )


def measure_clock() -> float:
    """Return by how many seconds this host's clock is ahead of PostgreSQL's."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("select extract(epoch from clock_timestamp())::float8")
            return time.time() - float(cursor.fetchone()[0])
    finally:
        connection.close()
