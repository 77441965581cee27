"""Find a common error in a text (pure), with its usual cause and a fix.

The table is `known_errors.toml`.
"""

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

TABLE = Path(__file__).with_suffix(".toml")
SEARCHED_LENGTH = 4_000  # the end of a text
# A name holds only harmless characters, because it goes from a program's output into the cause.
NAME = r"['\"`]?([\w@][\w@./:-]{0,79}?)"
FIRST = rf"(?<![\w@./:-]){NAME}"


@dataclass(frozen=True, slots=True)
class KnownError:
    """An entry of the table."""

    name: str
    title: str
    pattern: re.Pattern[str]
    cause: str
    fix: str


@dataclass(frozen=True, slots=True)
class Match:
    """A known error found in a text; its cause includes the name that the text has."""

    error: KnownError
    cause: str

    @property
    def fix(self) -> str:
        return self.error.fix


def load_table() -> tuple[KnownError, ...]:
    """Read the table from its file and compile the patterns."""
    return tuple(
        KnownError(
            name=row["name"],
            title=row["title"],
            pattern=compile_patterns(row["patterns"]),
            cause=row["cause"],
            fix=row["fix"],
        )
        for row in tomllib.loads(TABLE.read_text())["error"]
    )


def compile_patterns(patterns: Iterable[str]) -> re.Pattern[str]:
    """Compile the alternatives as one pattern, with the placeholders for names filled in."""
    text = "|".join(patterns).replace("{NAME}", NAME).replace("{FIRST}", FIRST)
    return re.compile(text, re.I)


KNOWN_ERRORS = load_table()
BY_NAME = {error.name: error for error in KNOWN_ERRORS}
# the errors that an exit code stands for, used if no text matches
EXIT_CODES = {
    124: "timeout",
    126: "permission_denied",
    127: "command_not_found",
    137: "out_of_memory",
    139: "crash",
}
# the words for {name} if the text has no name
UNNAMED = {"missing_module": "A module", "command_not_found": "The command"}


def find(texts: Iterable[str], *, exit_code: int | None = None) -> Match | None:
    """Return the known error of the first text that matches one, else that of the exit code.

    >>> find(["Error: Cannot find module 'uuid'"]).cause
    'uuid is not installed where the command runs.'
    """
    for text in texts:
        end = text[-SEARCHED_LENGTH:]
        for error in KNOWN_ERRORS:
            if match := error.pattern.search(end):
                return describe(error, match)
    if exit_code in EXIT_CODES:
        return describe(BY_NAME[EXIT_CODES[exit_code]], None)
    return None


def describe(error: KnownError, match: re.Match[str] | None) -> Match:
    """Return the error with the captured name in its cause, or a general word for it."""
    name = next((value for value in match.groups() if value), "") if match else ""
    return Match(error, error.cause.replace("{name}", name or UNNAMED.get(error.name, "")))
