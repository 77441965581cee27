"""Delete sessions that are older than the setting allows."""

from datetime import datetime, timedelta

from django.conf import settings

from ledger import sql
from ledger.sessions.statements import DELETE_OLD

MOST = 100


def delete_old(*, now: datetime) -> int:
    """Delete the sessions whose last message is too old, a bounded number; return how many.

    Their events stay in the journal, and the tasks that were made of their to-dos stay as well.
    """
    days: int = settings.TENFOUR["SESSION_DAYS"]
    if not days:
        return 0
    return len(sql.run(DELETE_OLD, before=now - timedelta(days=days), most=MOST))
