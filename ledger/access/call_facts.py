"""Describe a call: its request, program, and address (pure)."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ledger.secrets.redaction import redacted

# The client sends its time, so that a wrong clock is found before leases look expired.
CLOCK = "HTTP_TENFOUR_CLOCK"
LONGEST = 120
IDS = re.compile(r"/[0-9a-f]{8}-[0-9a-f-]{27}")


def describe_call(meta: Mapping[str, Any], *, now: datetime) -> dict[str, Any]:
    """Return the facts of a request, none of them secret; ids in its path are left out.

    >>> from datetime import UTC
    >>> at = datetime(2026, 4, 12, tzinfo=UTC)
    >>> describe_call({"REQUEST_METHOD": "GET", "PATH_INFO": "/v1/me"}, now=at)
    {'what': 'GET /v1/me', 'program': '', 'address': ''}
    """
    path = IDS.sub("/{id}", str(meta.get("PATH_INFO", "")))
    facts: dict[str, Any] = {
        "what": clip(f"{meta.get('REQUEST_METHOD', '')} {path}".strip()),
        "program": clip(str(meta.get("HTTP_USER_AGENT", ""))),
        "address": clip(str(meta.get("REMOTE_ADDR", ""))),
    }
    clock = str(meta.get(CLOCK, ""))
    if clock.isascii() and clock.isdigit() and len(clock) < 12:
        facts["clock_ahead_s"] = round(int(clock) - now.timestamp())
    return facts


def clip(text: str) -> str:
    shown = redacted(text)[:LONGEST]
    return "".join(c for c in shown if c.isprintable() and not "\ud800" <= c <= "\udfff")
