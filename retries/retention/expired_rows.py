"""Delete rows that nothing needs once they have expired, in small batches, without an archive."""

import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from django.conf import settings

from ledger import idempotency, markers
from ledger.people import browsers
from retries.notifications.rules import threads
from retries.operations import expiry

# Each run deletes the rows of one kind for this long; the next run continues.
SLICE_SECONDS = 10.0


def delete_operation(now: datetime) -> int:
    """Delete the oldest operation whose events are past their time, too; return how many."""
    days = settings.TENFOUR["EVENT_DAYS"]
    return expiry.delete_oldest(before=now - timedelta(days=days)) if days else 0


def delete_threads(now: datetime) -> int:
    before = now - timedelta(days=settings.TENFOUR["DELIVERY_DAYS"])
    return threads.delete_closed(before=before)


def delete_markers(now: datetime) -> int:
    days = settings.TENFOUR["EVENT_DAYS"]
    return markers.delete_expired(before=now - timedelta(days=days)) if days else 0


# what goes -> what deletes some of it, and returns how much
EXPIRIES: Mapping[str, Callable[[datetime], int]] = {
    "idempotency_keys": idempotency.delete_expired_keys,
    "browser_sessions": browsers.delete_expired_sessions,
    "signed_in_browsers": browsers.delete_ended_sign_ins,
    "operations": delete_operation,
    "notification_threads": delete_threads,
    "markers": delete_markers,
}


def delete_expired(*, now: datetime) -> dict[str, int]:
    return {name: delete_for_a_while(delete, now) for name, delete in EXPIRIES.items()}


def delete_for_a_while(delete: Callable[[datetime], int], now: datetime) -> int:
    deleted, ends_at = 0, time.monotonic() + SLICE_SECONDS
    while number := delete(now):
        deleted += number
        if time.monotonic() >= ends_at:
            break
    return deleted
