"""Reading of arguments, output and error messages of the command line."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from tenfour.commands.display import clean, escape_json
from tenfour.http.problems import ServerAway, TenfourError
from tenfour.settings import NotConfigured

OK, REFUSED, USAGE, NOTHING, AWAY, ESCALATED, BLOCKED, INTERRUPTED = 0, 1, 2, 3, 69, 75, 76, 130
# Hints in terms of the command line instead of the API.
HINTS = {
    "not_a_pool": "Use the name of a pool; `tenfour pool list` lists them.",
    "rate_limited": "Wait a moment and repeat the command.",
    "token_missing": "Set TENFOUR_TOKEN to a token, or run `tenfour init`.",
    "unknown_agent": "`tenfour agent list` lists the agents; --register registers a new one.",
    "scope_missing": "`tenfour doctor` lists the scopes of this token.",
    "validation_error": "Fix the arguments that it names.",
}


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
    """Return JSON to print: indented, and safe for a terminal."""
    return escape_json(json.dumps(value, ensure_ascii=False, indent=2))


def say(text: str) -> None:
    print(text, flush=True)


def note(text: str) -> None:
    """Print a line about the command to stderr; it may quote what others wrote."""
    print(f"tenfour: {clean(text)}", file=sys.stderr)


# What people type for the fields of a request, where the option has another name.
ARGUMENTS = {
    "agent": "AGENT",
    "content": "TEXT",
    "data": "DATA",
    "lease_s": "--lease",
    "payload": "PAYLOAD",
    "timeout_s": "--timeout",
    "tracked": "--plain",
    "type": "TYPE",
}
OPTIONS = (
    "limit max_attempts max_retries message note on_exhausted on_failed outcome priority reason "
    "ref register result summary title"
)
ARGUMENTS |= {name: f"--{name.replace('_', '-')}" for name in OPTIONS.split()}


def name_arguments(
    sentence: str, errors: Iterable[Mapping[str, Any]], arguments: Mapping[str, str] | None = None
) -> str:
    """Return the sentence with the arguments of the command line in place of JSON pointers."""
    known = {**ARGUMENTS, **(arguments or {})}
    pointers = {str(error.get("pointer", "")) for error in errors} - {"", "/"}
    for pointer in pointers:
        first, *inner = pointer.strip("/").split("/")
        name = ".".join([known.get(first, first), *inner])
        named, count = re.subn(rf"(?<![\w/]){re.escape(pointer)}(?![\w/])", name, sentence)
        sentence = named if count or len(pointers) > 1 else f"{name}: {sentence}"
    return sentence


def complain(
    error: TenfourError, *, subject: str = "", arguments: Mapping[str, str] | None = None
) -> None:
    """Print an error: one sentence, one hint, and the request's id for the server's log."""
    # an error in a file: it names the line, and no argument is wrong
    is_of_line = "line" in error.problem
    said = error.sentence
    if not is_of_line:
        said = name_arguments(said, error.errors, arguments)
    sentence = f"{subject}: {said}" if subject else said
    sentence += "" if sentence.endswith((".", "!", "?")) else "."
    hint = error.hint if is_of_line else HINTS.get(error.code, error.hint)
    request = f"(request {error.request_id})" if error.request_id else ""
    note(" ".join(f"{sentence} {hint} {request}".split()))


def use_utf8() -> None:
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            errors = "strict" if stream is sys.stdin else "replace"
            stream.reconfigure(encoding="utf-8", errors=errors)
