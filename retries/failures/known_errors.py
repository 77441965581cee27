"""Find a common error in a text (pure), with its usual cause and a fix.

The table is `known_errors.toml`. A pattern reads at most 400 characters: a scored line is cut.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from retries.failures.outputs.salience import rank_lines
from retries.failures.outputs.salience_rules import SUMMARY

TABLE = Path(__file__).with_suffix(".toml")
# Only lines that tell the cause are searched: the best ones of a text, and among them none that is
# much worse than the best.
SEARCHED_LINES, LEAST_SCORE, MOST_BELOW = 12, SUMMARY, 55
# A name holds only harmless characters, because it goes from a program's output into the cause.
NAME = r"['\"`]?([\w@][\w@./:-]{0,79}?)"
FIRST = rf"(?<![\w@./:-]){NAME}"


class Action(StrEnum):
    """The remedy: a retry with the fix, a wait as long as the error says, or a person."""

    RETRY = "retry"
    WAIT = "wait"
    ASK = "ask"


@dataclass(frozen=True, slots=True)
class KnownError:
    """An entry of the table; each of its examples is a line that is this error."""

    name: str
    title: str
    action: Action
    pattern: re.Pattern[str]
    examples: tuple[str, ...]
    cause: str
    fix: str
    for_person: str  # what a person has to do; empty if the agent can follow the fix
    # the earlier entries whose examples this one matches too, each with the reason
    overlaps: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Match:
    """A known error found in a text; its cause includes the name that the text has."""

    error: KnownError
    cause: str
    line: str = ""  # the line that has it; empty if only the exit code tells it
    for_person: str = ""

    @property
    def fix(self) -> str:
        return self.error.fix


def load_table() -> tuple[KnownError, ...]:
    return tuple(
        KnownError(
            name=row["name"],
            title=row["title"],
            action=Action(row["action"]),
            pattern=compile_patterns(row["patterns"]),
            examples=tuple(row["examples"]),
            cause=row["cause"],
            fix=row["fix"],
            for_person=row.get("for_person", ""),
            overlaps=row.get("overlaps", {}),
        )
        for row in tomllib.loads(TABLE.read_text())["error"]
    )


def compile_patterns(patterns: Iterable[str]) -> re.Pattern[str]:
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
# the account that the error refuses, and the words for {account} if it names none
ACCOUNT = re.compile(
    r"\buser:? ['\"]?([\w@][\w@./:-]{0,79})['\"]? (?:cannot|is not authori[sz]ed)", re.I
)
UNNAMED_ACCOUNT = "the agent's account"
# the words for {name} if the text has no name
UNNAMED = {"missing_module": "A module", "command_not_found": "The command"}


def find(*texts: str, exit_code: int | None = None) -> Match | None:
    """Return the known error of the most telling line that has one, else that of the exit code.

    >>> find("npm test\\nError: Cannot find module 'uuid'").cause
    'uuid is not installed where the command runs.'
    """
    lines = [line for text in texts for line in rank_lines(text)[:SEARCHED_LINES]]
    best = max((line.score for line in lines), default=0)
    for line in sorted(lines, key=lambda line: -line.score):
        if line.score < best - MOST_BELOW or line.score < LEAST_SCORE:
            break
        for error in KNOWN_ERRORS:
            if match := error.pattern.search(line.text):
                return describe(error, match, line.text)
    if exit_code in EXIT_CODES:
        return describe(BY_NAME[EXIT_CODES[exit_code]], None)
    return None


def describe(error: KnownError, match: re.Match[str] | None, line: str = "") -> Match:
    # Without a captured name, the cause has a general word for it.
    name = next((value for value in match.groups() if value), "") if match else ""
    refused = ACCOUNT.search(line)
    return Match(
        error,
        error.cause.replace("{name}", name or UNNAMED.get(error.name, "")),
        line,
        word_for_person(error, f"`{refused[1]}`" if refused else UNNAMED_ACCOUNT),
    )


def word_for_person(error: KnownError, account: str = UNNAMED_ACCOUNT) -> str:
    return error.for_person.replace("{account}", account)
