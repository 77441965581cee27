"""Text for people: cleaned of control characters; cut and colored where stdout is a terminal."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TextIO

# Escape sequences, then every other character that moves the cursor, reorders text, or is half of
# a pair. Text comes from agents and from their failures, and a terminal would obey it.
SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
)
UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
STYLES = {"bold": "1", "dim": "2", "bad": "31", "good": "32", "wait": "33", "live": "36"}
STATES = {
    "good": "done acknowledged active completed resolved closed success replayed",
    "bad": "failed failure open regressed timeout revoked expired",
    "wait": "retry blocked reported escalated half_open paused delivered draft",
    "live": "running queued",
    "dim": "aborted cancelled skipped ignored dismissed withdrawn retired released",
}
STYLE_OF = {state: style for style, states in STATES.items() for state in states.split()}

REPORTED_BLOCKED = "reported blocked"  # the words of the pages


def describe_task_state(
    state: str, blocked_reason: str | None, not_before: str | None = None
) -> str:
    """Return a task's state with the reason why it is blocked.

    >>> describe_task_state("blocked", "dependency"), describe_task_state("blocked", "reported")
    ('blocked (dependency)', 'reported blocked')
    >>> describe_task_state("blocked", "not_before", "2026-10-12T18:00:00.000Z")
    'not before 2026-10-12T18:00:00.000Z'
    """
    if blocked_reason == "not_before" and not_before:
        return f"not before {not_before}"
    if blocked_reason == "reported":
        return REPORTED_BLOCKED
    return f"{state} ({blocked_reason})" if blocked_reason else state


UNITS = ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


@dataclass(frozen=True)
class Screen:
    """The place that output goes to: a terminal of this width, or a file or a pipe."""

    tty: bool = False
    color: bool = False
    width: int = 80
    now: datetime = field(default_factory=lambda: datetime.now(timezone.utc))

    def paint(self, text: str, style: str) -> str:
        """Return the text in a style, if there is color."""
        code = STYLES.get(style) if self.color and text else None
        return f"\x1b[{code}m{text}\x1b[0m" if code else text


def find_screen(stream: TextIO | None = None, environ: Mapping[str, str] = os.environ) -> Screen:
    """Return the screen of a stream, by default stdout."""
    tty = (stream or sys.stdout).isatty()
    return Screen(tty, wants_color(tty, environ), find_width(environ) if tty else 80)


def find_width(environ: Mapping[str, str]) -> int:
    """Return the terminal's width, or COLUMNS if it is set; at least 20."""
    columns = environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns):
        return max(20, int(columns))
    for stream in (sys.__stdout__, sys.__stderr__):
        with suppress(OSError, ValueError, AttributeError):
            return max(20, os.get_terminal_size(stream.fileno()).columns or 80)  # type: ignore[union-attr]
    return 80


def wants_color(tty: bool, environ: Mapping[str, str]) -> bool:
    """Return whether to color, by NO_COLOR, CLICOLOR, CLICOLOR_FORCE and TERM.

    >>> wants_color(True, {}), wants_color(True, {"NO_COLOR": "1"}), wants_color(False, {})
    (True, False, False)
    """
    if environ.get("NO_COLOR"):
        return False
    if environ.get("CLICOLOR_FORCE", "0") not in {"", "0"}:
        return True
    return tty and environ.get("CLICOLOR") != "0" and environ.get("TERM") != "dumb"


def clean(text: str) -> str:
    """Return the text without what a terminal would obey; its lines stay.

    >>> clean("a\\x1b[31mred\\x1b[0m\\rb\\nc")
    'aredb\\nc'
    """
    return UNSAFE.sub("", SEQUENCES.sub("", text))


def one_line(text: str) -> str:
    """Return the cleaned text as one line without tabs.

    >>> one_line("a\\n b\\tc")
    'a b c'
    """
    return " ".join(clean(text.replace("\r", "\n")).split())


def escape_json(text: str) -> str:
    """Return JSON that means the same and has nothing that a terminal would obey.

    >>> escape_json('"\\x9b31m"')
    '"\\\\u009b31m"'
    """
    return UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def width_of(text: str) -> int:
    """Return the number of a terminal's cells that the text takes."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(character: str) -> int:
    import unicodedata

    if unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


def cut(text: str, width: int) -> str:
    """Return the text, shortened with an ellipsis if it is wider.

    >>> cut("abcdef", 4), cut("abcd", 4)
    ('abc…', 'abcd')
    """
    if width_of(text) <= width:
        return text
    end = cells = 0
    for end, character in enumerate(text):  # noqa: B007
        cells += _cells(character)
        if cells > width - 1:
            break
    return text[:end].rstrip() + "…" if width > 0 else ""


def pad(text: str, width: int) -> str:
    return text + " " * (width - width_of(text))


def ago(at: datetime, now: datetime) -> str:
    """Return how long before or after `now` a time is.

    >>> noon = datetime(2026, 11, 22, 12, tzinfo=timezone.utc)
    >>> ago(noon.replace(hour=10), noon), ago(noon.replace(minute=1), noon)
    ('2 hours ago', 'in 1 minute')
    """
    seconds = int((now - at).total_seconds())
    size, unit = next(((s, u) for s, u in UNITS if abs(seconds) >= s), (1, "second"))
    count = abs(seconds) // size
    if not count:
        return "now"
    length = f"{count} {unit}{'' if count == 1 else 's'}"
    return f"{length} ago" if seconds > 0 else f"in {length}"
