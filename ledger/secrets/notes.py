"""Clean the texts that people and agents leave with an action (pure)."""

from hashlib import sha256

from ledger.secrets.redaction import cut, redacted, stripped, titled

NOTE_LENGTH = 2000
DIGEST_LENGTH = 12


def clean_note(note: str, *, limit: int = NOTE_LENGTH) -> str:
    """Return a text for storage: without secrets and unseen characters, of at most `limit`.

    Every note, reason and comment is stored through here, as it was typed: a caller that cuts it
    first leaves half a secret, which is not recognized.

    >>> clean_note(" wrong branch, password=hunter2hunter2 ")
    'wrong branch, password=[redacted:secret]'
    """
    return stripped(redacted(note)).strip()[:limit]


def clean_message(text: str, *, limit_bytes: int) -> str:
    """Return a longer text for storage in the same way, with a mark where it is cut."""
    return cut(clean_note(text, limit=len(text)), limit_bytes=limit_bytes)


def noted(note: str, *, name: str = "note") -> dict[str, str]:
    """Return the part of an event's data that says why, without secrets; empty without a note.

    >>> noted(" wrong branch "), noted("broken", name="reason"), noted(" ")
    ({'note': 'wrong branch'}, {'reason': 'broken'}, {})
    """
    text = clean_note(note)
    return {name: text} if text else {}


def clean_title(title: str) -> str:
    return titled(redacted(title)).strip()


def mask_key(key: str, *, limit: int) -> str:
    """Return a key under which something is found again, without secrets, of at most `limit`.

    A digest of the whole key follows the mask, so two keys that differ in a secret stay different.

    >>> mask_key("ci-7", limit=40), mask_key("PASSWORD=hunter2hunter2", limit=40)
    ('ci-7', 'PASSWORD=[redacted:secret]#aa16ca57928c')
    """
    masked = redacted(key)
    if masked == key:
        return key
    digest = sha256(key.encode()).hexdigest()[:DIGEST_LENGTH]
    return f"{masked[: limit - DIGEST_LENGTH - 1]}#{digest}"
