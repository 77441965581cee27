"""The times at which a failed delivery is retried (pure)."""

import random
from datetime import datetime, timedelta

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
# the waits before each try, measured from the try before it
WAITS = (
    0 * SECOND,
    5 * SECOND,
    5 * MINUTE,
    30 * MINUTE,
    2 * HOUR,
    5 * HOUR,
    10 * HOUR,
    14 * HOUR,
    20 * HOUR,
    24 * HOUR,
)
MOST_TRIES = len(WAITS)
JITTER = 0.1
LONGEST_ASKED_WAIT = 24 * HOUR
# A channel that keeps failing is left alone for a while, whatever waits for it.
CALM_FAILURES = 3
LONGEST_PAUSE = MINUTE


def next_try_at(tries: int, *, now: datetime, retry_after_s: int | None = None) -> datetime | None:
    """Return when the try after `tries` tries is due, or None after the last.

    It is never earlier than the receiver's Retry-After, up to a day.
    """
    if tries >= MOST_TRIES:
        return None
    wait = WAITS[tries] * (1 + random.uniform(0, JITTER))  # noqa: S311 - spreads load
    asked = timedelta(seconds=retry_after_s or 0)
    return now + max(wait, min(asked, LONGEST_ASKED_WAIT))


def pause_after(failures: int) -> timedelta:
    """Return how long a channel is left alone after this many consecutive failures.

    >>> [pause_after(n).seconds for n in (1, 3, 4, 6, 60)]
    [0, 2, 4, 16, 60]
    """
    if failures < CALM_FAILURES:
        return timedelta()
    return min((1 << min(failures - CALM_FAILURES + 1, 10)) * SECOND, LONGEST_PAUSE)
