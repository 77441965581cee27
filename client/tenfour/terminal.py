"""Reading of arguments, output and error messages of the command line."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

from tenfour.problems import ServerAway, TenfourError
from tenfour.settings import NotConfigured

OK, REFUSED, USAGE, NOTHING, AWAY, INTERRUPTED = 0, 1, 2, 3, 69, 130
# Hints in terms of the command line instead of the API.
HINTS = {"unknown_agent": "Use one of the nearest names, or --register to register it."}


class WrongUsage(TenfourError):
    """An argument that makes no sense."""


def wrong_usage(detail: str, hint: str = "") -> WrongUsage:
    return WrongUsage(detail, code="usage", hint=hint)


def exit_status(error: TenfourError) -> int:
    """Return the exit status for an error."""
    if isinstance(error, (NotConfigured, WrongUsage)):
        return USAGE
    return AWAY if isinstance(error, ServerAway) else REFUSED


def text_of(argument: str) -> str:
    """Return the argument, or stdin's text for `-`."""
    # The newline at the end of a file or an echo is not part of the text.
    if argument != "-":
        return argument
    try:
        return sys.stdin.read().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise wrong_usage("The text from stdin is not UTF-8.") from error


def json_of(text: str, *, what: str, hint: str = "") -> Any:
    """Parse JSON; raises WrongUsage."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise wrong_usage(f"{what} is not JSON: {error}.", hint) from error


def json_object(text: str, *, what: str, hint: str = "") -> dict[str, Any]:
    """Parse a JSON object; raises WrongUsage."""
    value = json_of(text, what=what, hint=hint)
    if not isinstance(value, dict):
        raise wrong_usage(f"{what} is not a JSON object.", hint)
    return value


def pretty(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def say(text: str) -> None:
    print(text, flush=True)


def note(text: str) -> None:
    print(f"tenfour: {text}", file=sys.stderr)


def complain(error: TenfourError, *, subject: str = "") -> None:
    """Print an error: one sentence, one hint, and the request's id for the server's log."""
    sentence = f"{subject}: {error.sentence}" if subject else error.sentence
    sentence += "" if sentence.endswith((".", "!", "?")) else "."
    hint = HINTS.get(error.code, error.hint)
    request = f"(request {error.request_id})" if error.request_id else ""
    note(" ".join(f"{sentence} {hint} {request}".split()))


def use_utf8() -> None:
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            errors = "strict" if stream is sys.stdin else "replace"
            stream.reconfigure(encoding="utf-8", errors=errors)
