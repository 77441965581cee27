"""The clock's entry for notifications: read the journal, remind, and summarize."""

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings

from ledger.models import Project
from retries.models import Delivery
from retries.notifications import outbox
from retries.notifications.rules import summaries, threads

PURGED_AT_ONCE = 1000


def process_due(*, now: datetime, project: Project | None = None) -> dict[str, Any]:
    """Write the deliveries that are due; the job that runs this asks a worker to send them."""
    written = outbox.read_outbox(now=now, project=project)
    reminded = threads.send_due(now=now)
    summarized = summaries.send_summaries(now=now)
    return {
        "written": written,
        "reminded": reminded,
        "summarized": summarized,
        "purged": purge(now),
    }


def purge(now: datetime) -> int:
    """Delete the oldest deliveries beyond TENFOUR_DELIVERY_DAYS; return how many."""
    limit = now - timedelta(days=settings.TENFOUR["DELIVERY_DAYS"])
    old = Delivery.objects.filter(created_at__lt=limit).order_by("created_at")
    ids = list(old.values_list("pk", flat=True)[:PURGED_AT_ONCE])
    return Delivery.objects.filter(pk__in=ids).delete()[0] if ids else 0
