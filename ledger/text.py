"""Shorten text for display (pure)."""

ELLIPSIS = "…"


def truncate(text: str, length: int) -> str:
    """Return the text in at most `length` characters; a cut text ends with an ellipsis.

    >>> truncate("Run the tests", 13), truncate("Run the tests", 5)
    ('Run the tests', 'Run…')
    """
    if len(text) <= length:
        return text
    return text[: length - len(ELLIPSIS)].rstrip() + ELLIPSIS
