"""Clean the notes that people leave with an action (pure)."""

from ledger.redaction import redacted, stripped

NOTE_LENGTH = 2000


def clean_note(note: str) -> str:
    """Return a note as it is stored: without secrets and unseen characters.

    >>> clean_note(" wrong branch, password=hunter2hunter2 ")
    'wrong branch, password=[redacted:secret]'
    """
    # Redact before cutting: half a secret would not be recognized.
    return stripped(redacted(note)).strip()[:NOTE_LENGTH]


def noted(note: str) -> dict[str, str]:
    """Return the part of an event's data that says why, without secrets; empty without a note.

    >>> noted(" wrong branch "), noted(" ")
    ({'note': 'wrong branch'}, {})
    """
    text = clean_note(note)
    return {"note": text} if text else {}
