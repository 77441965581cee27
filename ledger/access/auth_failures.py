"""Store the newest calls with a wrong token in Redis for a few minutes."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from ledger.access.call_facts import describe_call
from ledger.database import optional_cache, server_time
from ledger.errors import Refusal

# failed authentications of an address, before it gets 429
PER_MINUTE = 10
KEY = "auth-failures-recent"
KEPT = 20
SECONDS = 300
# No part of any other text is stored: it may be the secret of another service.
PREFIX = re.compile(r"tenfour_(?:agt|orc|opr|ro)_[0-9A-Za-z]{4}")


def note_failure(meta: Mapping[str, Any], refusal: Refusal) -> None:
    """Store a refused call; `project` is empty for a token that no project has."""
    # If two calls arrive at once, one may be lost.
    now = server_time.now()
    secret = str(meta.get("HTTP_AUTHORIZATION", "")).partition(" ")[2].strip()
    prefix = PREFIX.match(secret)
    failure = describe_call(meta, now=now) | {
        "at": now,
        "code": refusal.code,
        "detail": refusal.detail,
        "prefix": prefix[0] if prefix else "",
        "project": str(refusal.project_id or ""),
    }
    optional_cache.write(KEY, [failure, *list_failures(now)][:KEPT], seconds=SECONDS)


def list_failures(now: datetime) -> list[dict[str, Any]]:
    """Return the refused calls of the last minutes, newest first; none without Redis."""
    since = now - timedelta(seconds=SECONDS)
    return [each for each in optional_cache.read(KEY) or [] if each["at"] > since]


def list_project_failures(project_id: UUID, *, now: datetime) -> list[dict[str, Any]]:
    """Return the refused calls that may concern a project: not those with another's token."""
    concerning = ("", str(project_id))
    return [each for each in list_failures(now) if each.get("project", "") in concerning]
