"""The clock's entry for notifications: read the journal, remind, and summarize."""

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings

from ledger.database.sql import quoted, run
from ledger.journal import SETTLED, since_position
from ledger.models import Project
from retries.models import Delivery
from retries.models.notification_delivery import UNSETTLED, DeliveryState
from retries.notifications import outbox
from retries.notifications.digests import sending as digests
from retries.notifications.rules import summaries, threads

PURGED_AT_ONCE = 1000
# One statement, because the clock asks every second, and mostly nothing is due.
DUE = f"""select
    coalesce((select exists (select from ledger_event e where {SETTLED}
            and (e.tx, e.id) > (c.tx::text::xid8, c.event_id)
            and e.id >= {since_position("c.event_id")})
        from retries_streamcursor c where c.name = '{outbox.READER}'), true) as events,
    exists (select from retries_notificationthread where is_open and repeat_at <= %(now)s)
        or exists (select from retries_notificationthread where is_open and second_at <= %(now)s)
        as reminders,
    exists (select from retries_delivery
        where state = '{DeliveryState.HELD}' and held_until <= %(now)s) as summaries,
    exists (select from retries_channel where digest_due_at <= %(counted_until)s) as digests,
    exists (select from retries_delivery
        where state in ({quoted(UNSETTLED)}) and next_try_at <= %(now)s) as unsent,
    exists (select from retries_delivery where created_at < %(kept_since)s) as old"""


def process_due(*, now: datetime, project: Project | None = None) -> dict[str, Any]:
    """Write the deliveries that are due; the job that runs this asks a worker to send them.

    `unsent` is 0 if there is nothing to send.
    """
    kept_since = now - timedelta(days=settings.TENFOUR["DELIVERY_DAYS"])
    (due,) = run(DUE, now=now, kept_since=kept_since, counted_until=now - digests.COUNTING)
    has_events = due["events"]  # which may make reminders and summaries due at once
    written = outbox.read_outbox(now=now, project=project) if has_events else 0
    reminded = threads.send_due(now=now) if has_events or due["reminders"] else 0
    summarized = summaries.send_summaries(now=now) if has_events or due["summaries"] else 0
    digested = digests.send_due(now=now) if due["digests"] else 0
    did = {"digested": digested} if digested else {}
    return did | {
        "written": written,
        "reminded": reminded,
        "summarized": summarized,
        "purged": purge(kept_since) if due["old"] else 0,
        "unsent": int(due["unsent"] or written + reminded + summarized + digested > 0),
    }


def purge(kept_since: datetime) -> int:
    """Delete the oldest deliveries from before a time; return how many."""
    old = Delivery.objects.filter(created_at__lt=kept_since).order_by("created_at")
    ids = list(old.values_list("pk", flat=True)[:PURGED_AT_ONCE])
    return Delivery.objects.filter(pk__in=ids).delete()[0] if ids else 0
