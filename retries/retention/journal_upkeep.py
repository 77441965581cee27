"""Create the journal's partitions for the coming months, and drop old ones.

The records of sign-ins, which the audit log shows with the journal, go by the same limit. So do
operations. Rows that have expired go, too.
"""

import logging
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings

from ledger.journal_storage import months as journal_months
from ledger.journal_storage.months import Busy
from ledger.models import Project
from ledger.people import browsers
from retries.retention import event_months, expired_rows

logger = logging.getLogger(__name__)

SIGN_INS_A_RUN = 10_000


def keep_months(*, now: datetime, project: Project | None = None) -> dict[str, Any]:
    """Create and drop months, and delete what has expired; return how many of each.

    `resume_after` has the month that the next run continues to archive.
    """
    # A long transaction can put off a change of months.
    counts: dict[str, Any] = {"made": 0, "dropped": 0, "analyzed": 0, "put_off": 0, "sign_ins": 0}
    if project is not None:  # a partition has the events of all projects
        return counts
    for name, keep in (("made", make_months), ("dropped", drop_past_month)):
        try:
            counts[name] = keep(now)
        except Busy:
            counts["put_off"] += 1
        except OSError as error:
            counts["put_off"] += 1
            counts["error"] = (
                f"The journal keeps a past month. The archive can't be written: {error}."
            )
            logger.error("%s", counts["error"])
    counts["sign_ins"] = delete_old_sign_ins(now)
    counts |= expired_rows.delete_expired(now=now)
    counts["analyzed"] = int(journal_months.analyze_if_stale())
    resume_after = event_months.fetch_resume_after()
    return counts | ({"resume_after": resume_after} if resume_after else {})


def delete_old_sign_ins(now: datetime) -> int:
    days = settings.TENFOUR["EVENT_DAYS"]
    if not days:
        return 0
    before = now - timedelta(days=days)
    return browsers.delete_sign_in_records(before=before, most=SIGN_INS_A_RUN)


def make_months(now: datetime) -> int:
    return journal_months.make_months(now=now)


def drop_past_month(now: datetime) -> int:
    """Archive the oldest month that is past its time, and drop it; return how many are gone."""
    # At most one a run: after the clock was set wrong, a person can notice before all are gone.
    dropped = journal_months.drop_detached()
    if days := settings.TENFOUR["EVENT_DAYS"]:
        for month in journal_months.list_months_past(before=now - timedelta(days=days))[:1]:
            dropped += event_months.archive_and_drop(month, now=now)
    return dropped
