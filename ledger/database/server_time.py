"""PostgreSQL's time, by which every lease, wait, and window is decided.

A process asks PostgreSQL for it every ten seconds, and in between adds what its steady clock says.
The host's own clock may be wrong: it decides nothing.
"""

import logging
import time
from datetime import UTC, datetime
from threading import Lock
from typing import NamedTuple

from django.db import Error, connections
from psycopg.pq import TransactionStatus

from ledger.database.databases import PRIMARY

MEASURE_EVERY_S = 10
# A transaction waits longer: its first statement may have to be one that sets its isolation level.
LONGEST_S = 60
FIRST_SAMPLES = 3
# how much a steady clock may gain or lose each second
DRIFT = 0.0005
# how far this host's clock may differ from PostgreSQL's
MOST_DIFFERENCE_S = 2
LOG_EVERY_S = 60

# Unlike CLOCK_MONOTONIC, it goes on while a computer sleeps. macOS has no such clock.
STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
ASK = "select extract(epoch from clock_timestamp())::float8"

logger = logging.getLogger(__name__)


class Measurement(NamedTuple):
    """The bounds of what must be added to the steady clock `at` that time.

    PostgreSQL read its clock between the question and the answer, so a round trip gives both.
    """

    low: float
    high: float
    at: float

    @property
    def offset(self) -> float:
        return (self.low + self.high) / 2

    def narrow(self, earlier: "Measurement") -> "Measurement":
        """Return what agrees with an earlier measurement, or this one if a clock was set.

        A slow round trip says little, and then the earlier one stays.
        """
        drift = DRIFT * (self.at - earlier.at)
        low, high = max(self.low, earlier.low - drift), min(self.high, earlier.high + drift)
        return Measurement(low, high, self.at) if low <= high else self


newest: Measurement | None = None
measuring = Lock()
logged_at: float | None = None


def now() -> datetime:
    """Return PostgreSQL's time."""
    at = time.clock_gettime(STEADY)
    known = newest
    if known is None or at - known.at > MEASURE_EVERY_S:
        known = renew(known, at)
        at = time.clock_gettime(STEADY)
    return datetime.fromtimestamp(at + known.offset, UTC)


def measure_difference() -> float:
    """Return by how many seconds this host's clock is ahead of PostgreSQL's; negative if behind."""
    at = now()  # first: it may take long
    return time.time() - at.timestamp()


def renew(known: Measurement | None, at: float) -> Measurement:
    """Measure, unless another thread does or this one's connection should not be used now."""
    if known is None:
        return measure()
    if not may_ask(at - known.at) or not measuring.acquire(blocking=False):
        return known
    try:
        return measure()
    except Error:
        # PostgreSQL is away. The caller's own statement says so, and the steady clock goes on.
        return known
    finally:
        measuring.release()


def may_ask(age_s: float) -> bool:
    """Return whether the thread's connection can take a statement that does not belong there."""
    db = connections[PRIMARY]
    status = db.connection.info.transaction_status if db.connection else TransactionStatus.IDLE
    if status in (TransactionStatus.ACTIVE, TransactionStatus.INERROR):
        return False
    return not db.in_atomic_block or age_s > LONGEST_S


def measure() -> Measurement:
    global newest
    found = newest
    for _ in range(1 if found else FIRST_SAMPLES):
        sample = take_sample()
        found = sample.narrow(found) if found else sample
    assert found
    newest = found
    log_difference(found)
    return found


def take_sample() -> Measurement:
    db = connections[PRIMARY]
    db.ensure_connection()  # is not part of the round trip
    # Not by a cursor of Django's: what counts or wraps the statements of a page must not meet it.
    with db.wrap_database_errors:
        asked_at = time.clock_gettime(STEADY)
        [answer] = db.connection.execute(ASK, prepare=True).fetchone()
        answered_at = time.clock_gettime(STEADY)
    return Measurement(answer - answered_at, answer - asked_at, answered_at)


def log_difference(measured: Measurement) -> None:
    """Warn once a minute while this host's clock is wrong."""
    global logged_at
    difference = time.time() - time.clock_gettime(STEADY) - measured.offset
    if abs(difference) <= MOST_DIFFERENCE_S:
        return
    if logged_at is None or measured.at - logged_at >= LOG_EVERY_S:
        logged_at = measured.at
        logger.warning("%s", describe_difference(difference))


def describe_difference(seconds: float) -> str:
    side = "ahead of" if seconds > 0 else "behind"
    return (
        f"this host's clock is {abs(seconds):.0f} s {side} PostgreSQL's: "
        "synchronize both hosts with a time server"
    )
