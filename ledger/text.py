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


def describe_exit(command: str, exit_code: int) -> str:
    """Return the sentence about a command that ended.

    >>> describe_exit("npm test", 1)
    '`npm test` returned exit code 1'
    """
    return f"`{truncate(' '.join(command.split()), 200)}` returned exit code {exit_code}"
