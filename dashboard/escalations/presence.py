"""Tell people that someone else is typing an answer to the same escalation.

A person counts as answering for TYPING_SECONDS after the last change of their text. This is only
a hint, so it is in Redis, and without Redis it is not shown.
"""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from ledger.database import optional_cache

TYPING_SECONDS = 60
LAST_START = "answering:last"


@dataclass(frozen=True, slots=True)
class Answering:
    """A person who is typing an answer, and since when."""

    name: str
    since: datetime


def note_typing(escalation_id: UUID, name: str, text: str, *, now: datetime) -> None:
    """Record that a person is typing an answer; an empty text ends it."""
    key = f"answering:{escalation_id}"
    found = optional_cache.read(key)
    if found and found[0] != name and text.strip():
        return  # the first one is shown until they stop
    if text.strip():
        since = found[1] if found else now
        optional_cache.write(key, (name, since), seconds=TYPING_SECONDS)
    elif found and found[0] == name:
        optional_cache.delete(key)
    if bool(found) != bool(text.strip()):
        optional_cache.write(LAST_START, now.timestamp(), seconds=TYPING_SECONDS)


def find_answering(escalation_id: UUID, viewer: str) -> Answering | None:
    # A person does not see their own typing.
    found = optional_cache.read(f"answering:{escalation_id}")
    return Answering(*found) if found and found[0] != viewer else None


def read_last_start() -> str:
    """Return a value that changes when someone begins or stops answering any escalation."""
    return str(optional_cache.read(LAST_START) or "")
