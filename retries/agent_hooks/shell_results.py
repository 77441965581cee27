"""Read the end of a shell call from each agent program's report: one table (pure).

The exit code is that of the whole line; `shell_lines` says whose it is of the commands in it.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from retries.attempts.endings import Unknown

CLAUDE, CODEX = "claude", "codex"
# This reads at most ERROR_LENGTH characters.
EXIT_CODE = re.compile(r"Exit code (\d{1,3})\b")
# The call's own time limit has ended the command with a signal.
# This reads at most ERROR_LENGTH characters.
TIMED_OUT = re.compile(r"Exit code 1\d\d\nCommand timed out after ")
# `cd nowhere && make test` has not run the tests; the client reads Codex's output the same way.
# This reads at most ERROR_LENGTH characters.
NOT_PREPARED = re.compile(
    r"\b(?:cd|pushd|source): (?:[^\n]{1,300}: )?"
    r"(?:no such file or directory|not a directory|permission denied|can't cd to)",
    re.I,
)
# All that the shell itself says where it finds no file to source, or to write to.
# This reads at most ERROR_LENGTH characters.
SHELL_ERROR = re.compile(
    r"[\w./-]{0,100}sh: (?:line )?\d{1,4}: [^\n]{1,300}: "
    r"(?:no such file or directory|not a directory|permission denied|is a directory)\s{0,9}\Z",
    re.I,
)
ERROR_LENGTH = 2000


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a shell call: its exit code, or why that is not known."""

    exit_code: int | None = None
    unknown: Unknown | None = None

    @property
    def is_later(self) -> bool:
        return self.unknown in (Unknown.BACKGROUND, Unknown.MOVED_TO_BACKGROUND)


@dataclass(frozen=True, slots=True)
class ShellResult:
    """An agent program's report of a shell call."""

    program: str
    has_failed: bool
    response: Any
    error: str = ""
    is_interrupted: bool = False
    # the agent requested a run in the background
    is_background: bool = False
    # the exit code in the records of the agent's program, which `tenfour hook` reads
    recorded: int | None = None

    @property
    def fields(self) -> Mapping[str, Any]:
        return self.response if isinstance(self.response, Mapping) else {}

    @property
    def code_in_error(self) -> int | None:
        found = EXIT_CODE.match(self.error[:ERROR_LENGTH])
        return int(found[1]) if found else None

    @property
    def has_not_begun(self) -> bool:
        # The shell stopped while it prepared the line.
        output = EXIT_CODE.sub("", self.error[:ERROR_LENGTH], count=1).lstrip()
        is_refused = self.code_in_error == 1 and SHELL_ERROR.match(output)
        return bool(is_refused or NOT_PREPARED.search(output))


@dataclass(frozen=True, slots=True)
class Reading:
    """One row: a result of this kind means that the call has ended so."""

    program: str
    kind: str
    applies: Callable[[ShellResult], bool]
    unknown: Unknown | None = None
    code: Callable[[ShellResult], int | None] = lambda result: None

    def ending(self, result: ShellResult) -> Ending:
        return Ending(unknown=self.unknown) if self.unknown else Ending(self.code(result))


# The first row that applies counts. Seen with Claude Code 2.1.197 and 2.1.332, and with Codex
# 0.169.0 and 0.171.0: both versions of each report the same.
READINGS = (
    Reading(
        CLAUDE,
        "PostToolUseFailure of a call that a person has interrupted",
        lambda result: result.has_failed and result.is_interrupted,
        Unknown.INTERRUPTED,
    ),
    # The code is that of the signal, whatever the command would have returned.
    Reading(
        CLAUDE,
        "PostToolUseFailure at the call's own time limit",
        lambda result: result.has_failed and bool(TIMED_OUT.search(result.error[:ERROR_LENGTH])),
        Unknown.INTERRUPTED,
    ),
    Reading(
        CLAUDE,
        "PostToolUseFailure of a line that did not find its folder, or a file of its own",
        lambda result: result.has_failed and result.has_not_begun,
        Unknown.NOT_REPORTED,
    ),
    Reading(
        CLAUDE,
        "PostToolUseFailure with 'Exit code N'",
        lambda result: result.has_failed and result.code_in_error is not None,
        code=lambda result: result.code_in_error,
    ),
    Reading(
        CLAUDE,
        "PostToolUseFailure without a code",
        lambda result: result.has_failed,
        Unknown.INTERRUPTED,
    ),
    Reading(
        CLAUDE,
        "PostToolUse without an object",
        lambda result: not isinstance(result.response, Mapping),
        Unknown.NOT_REPORTED,
    ),
    Reading(
        CLAUDE,
        "PostToolUse of a call with run_in_background",
        lambda result: result.is_background,
        Unknown.BACKGROUND,
    ),
    Reading(
        CLAUDE,
        "PostToolUse with backgroundTaskId",
        lambda result: bool(result.fields.get("backgroundTaskId")),
        Unknown.MOVED_TO_BACKGROUND,
    ),
    Reading(
        CLAUDE,
        "PostToolUse with interrupted",
        lambda result: bool(result.fields.get("interrupted")),
        Unknown.INTERRUPTED,
    ),
    # such as 1 of a search that found nothing
    Reading(
        CLAUDE,
        "PostToolUse with returnCodeInterpretation",
        lambda result: bool(result.fields.get("returnCodeInterpretation")),
        Unknown.NOT_REPORTED,
    ),
    Reading(CLAUDE, "any other PostToolUse", lambda result: True, code=lambda result: 0),
    # Codex's hook sends the output alone; the code is in the rollout.
    Reading(
        CODEX,
        "PostToolUse with a code in the rollout",
        lambda result: result.recorded is not None,
        code=lambda result: result.recorded,
    ),
    Reading(CODEX, "any other PostToolUse", lambda result: True, Unknown.NOT_REPORTED),
)


def read_ending(result: ShellResult) -> Ending:
    """Return how a shell call ended; nothing is known of another program's call.

    >>> read_ending(ShellResult("claude", has_failed=True, response=None, error="Exit code 2\\n"))
    Ending(exit_code=2, unknown=None)
    """
    rows = (row for row in READINGS if row.program == result.program and row.applies(result))
    row = next(rows, None)
    return row.ending(result) if row else Ending(unknown=Unknown.NOT_REPORTED)
