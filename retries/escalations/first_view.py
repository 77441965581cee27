"""Note when a person first opens an escalation's page."""

from datetime import datetime
from uuid import UUID

from ledger.database import sql

# Its version stays: the possible answers have not changed.
SEE = """update retries_escalation set seen_at = %(now)s
where id = %(id)s and seen_at is null and state = 'open'"""


def note_view(escalation_id: UUID, *, now: datetime) -> None:
    """Store that the page of an open escalation was opened, the first time."""
    sql.run(SEE, id=escalation_id, now=now)
