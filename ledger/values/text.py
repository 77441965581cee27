"""Shorten and compare texts (pure)."""

import difflib
from collections.abc import Iterable

ELLIPSIS = "…"
LEAST_ALIKE = 0.5


def truncate(text: str, length: int) -> str:
    """Return the text in at most `length` characters; a cut text ends with an ellipsis.

    >>> truncate("Run the tests", 13), truncate("Run the tests", 5)
    ('Run the tests', 'Run…')
    """
    if len(text) <= length:
        return text
    return text[: length - len(ELLIPSIS)].rstrip() + ELLIPSIS


def normalize_newlines(text: str) -> str:
    # Browsers send CR LF.
    return text.replace("\r\n", "\n")


def counted(number: int, one: str, many: str = "") -> str:
    """Format a number with its noun.

    >>> counted(1, "retry", "retries"), counted(1204, "delivery", "deliveries")
    ('1 retry', '1,204 deliveries')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def find_similar(name: str, known: Iterable[str], *, most: int = 5) -> list[str]:
    """Return the known names that look most like a name, or none if that is known itself.

    Those with the same letters come first. Case does not count.

    >>> find_similar("gmeini", ["coder", "gemini"]), find_similar("coder", ["coder", "codex"])
    (['gemini'], [])
    >>> find_similar("codre", ["codex", "coder"])
    ['coder', 'codex']
    """
    every = list(known)
    if name in every:
        return []
    names = {each.casefold(): each for each in every}
    typed = name.casefold()
    close = difflib.get_close_matches(typed, names, n=most, cutoff=LEAST_ALIKE)
    close.sort(key=lambda each: sorted(each) != sorted(typed))
    return [names[each] for each in close]


def describe_exit(command: str, exit_code: int) -> str:
    """Return the sentence about a command that ended.

    >>> describe_exit("npm test", 1)
    '`npm test` returned exit code 1'
    """
    return f"`{truncate(' '.join(command.split()), 200)}` returned exit code {exit_code}"
