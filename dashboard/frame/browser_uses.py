"""Note when each browser was last used, without a statement for each request."""

import time
from typing import Any

from django.http import HttpRequest

from ledger.database import server_time
from ledger.people.browsers import SEEN_EVERY, note_seen

# when this process last noted a use, by session key
NOTED: dict[str, float] = {}
MOST = 10_000


def note_use(request: HttpRequest) -> None:
    # Each process notes a browser about once a minute, not at each request.
    session: Any = request.session
    key, now = session.session_key or "", time.monotonic()
    if key not in NOTED:
        if len(NOTED) >= MOST:
            NOTED.clear()
        NOTED[key] = now
    elif now - NOTED[key] > SEEN_EVERY.total_seconds():
        NOTED[key] = now
        note_seen(key, now=server_time.now())
