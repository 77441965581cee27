"""Store what records of agents' programs say about the limits of an account."""

import logging
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import DatabaseError

from ledger.accounts import note_windows
from ledger.sessions.transcripts.limits import read_claude_limits, read_codex_limits
from ledger.tokens import Caller
from ledger.values.account_windows import LimitSource

MOST_RECORDS = 8
READERS = {LimitSource.CLAUDE: read_claude_limits, LimitSource.CODEX: read_codex_limits}
logger = logging.getLogger(__name__)


def note_records(
    agent_id: UUID, records: Iterable[Mapping[str, Any]], *, caller: Caller, now: datetime
) -> None:
    """Store the facts in records; one without a `timestamp` is of now."""
    dated = [{"timestamp": now.isoformat(), **record} for record in records]
    # The call itself matters more than the figures, which come again with the next one.
    for source, read in READERS.items():
        try:
            note_windows(agent_id, read(dated), source=source, caller=caller, now=now)
        except DatabaseError:
            logger.warning("the limits in an agent's records were not stored", exc_info=True)
