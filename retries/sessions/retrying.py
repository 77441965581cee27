"""Process the messages of a session's failed batches again."""

from django.db import transaction

from ledger.journal import Stamp
from ledger.models import Session
from ledger.sessions import batches
from retries.sessions import buffering


@transaction.atomic
def retry_failed(session: Session, *, tracker: str | None = None, stamp: Stamp) -> int:
    """Return the failed messages to the buffer and announce them; return how many there were."""
    # `tracker` reads the session from now on; None keeps the one that it has.
    returned = batches.retry_failed(session.pk, tracker=tracker, stamp=stamp)
    if returned:
        buffering.announce_retry(session)
    return returned
