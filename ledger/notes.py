"""Clean the notes that people leave with an action (pure)."""

from ledger.redaction import redacted, stripped

NOTE_LENGTH = 2000


def noted(note: str) -> dict[str, str]:
    """Return the part of an event's data that says why, without secrets; empty without a note.

    >>> noted(" wrong branch "), noted(" ")
    ({'note': 'wrong branch'}, {})
    """
    text = stripped(redacted(note)).strip()[:NOTE_LENGTH]
    return {"note": text} if text else {}
