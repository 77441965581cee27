"""Run the command that checks a task's work; the server judges its exit code."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

from tenfour.checks.passed_checks import has_passed, note_pass
from tenfour.checks.trees import Tree, read_tree
from tenfour.redaction.masking import masked
from tenfour.runs import runner
from tenfour.runs.output_buffer import OutputBuffer, cut_middle

TIMEOUT_S = 120.0
# Both mean a timeout; the second one is for a check that is expected to end with the first.
TIMED_OUT, KILLED = 124, 137
COMMAND_LENGTH = 4096
FOLDER_LENGTH = 1024
# As JSON: a report is at most 4 MiB, and other fields need room as well.
OUTPUT_BYTES = 3_700_000


@dataclass(frozen=True)
class Check:
    """A command to run: its folder, its time limit and the expected exit code."""

    command: str
    cwd: str | None = None
    timeout_s: float = TIMEOUT_S
    expect_exit: int = 0


@dataclass(frozen=True)
class Verified:
    """The result of a check; a long `output` is cut to its head and tail.

    `tree` are the files when it ended, where they could be read. `first` is an earlier result that
    this one repeats, because the check had passed on the same files. `suspects` are the most
    suspicious lines, if a coverage file was given.
    """

    check: Check
    exit_code: int
    output: str
    duration_s: float
    timed_out: bool = False
    tree: Tree | None = None
    at: str = ""
    first: Verified | None = None
    suspects: Sequence[Mapping[str, Any]] = ()

    @property
    def passed(self) -> bool:
        return self.exit_code == self.check.expect_exit

    @property
    def fields(self) -> dict[str, Any]:
        """Return the result as a report contains it."""
        fields: dict[str, Any] = {
            "command": masked(self.check.command, os.environ)[:COMMAND_LENGTH],
            "exit_code": self.exit_code,
            "duration_s": round(self.duration_s, 3),
            "output": truncate_output(masked(self.output, os.environ)),
        }
        # An older server knows no suspects.
        return fields | ({"suspects": list(self.suspects)} if self.suspects else {})

    @property
    def evidence(self) -> dict[str, Any]:
        """Return how the check ended, as a report's list of checks contains it."""
        found = {
            "command": self.fields["command"],
            "cwd": os.path.abspath(self.check.cwd or "")[:FOLDER_LENGTH],
            "exit_code": self.exit_code,
            "seen_by": "client",
            "at": self.at or None,
            "duration_s": round(self.duration_s, 3),
            "tree": self.tree,
        }
        return {name: value for name, value in found.items() if value is not None}

    @property
    def is_flaky(self) -> bool:
        """Return whether the check gave two results on the same files."""
        return self.first is not None and self.passed

    @property
    def runs(self) -> list[dict[str, Any]]:
        """Return each run of the check, oldest first, as a report's list of checks contains it."""
        return [each.evidence for each in (self.first, self) if each is not None]

    @property
    def failure(self) -> dict[str, Any] | None:
        """Return the failure that the exit code does not show: a timeout."""
        if not self.timed_out:
            return None
        message = f"The check did not finish within {self.check.timeout_s:g} s."
        return {"type": "timeout", "message": message}


def has_check(payload: Any) -> bool:
    """Return whether the task declares a verify command."""
    verify = payload.get("verify") if isinstance(payload, Mapping) else None
    return isinstance(verify, Mapping) and bool(verify.get("command"))


def choose_check(
    payload: Any, command: str | None, *, cwd: str | None = None, timeout_s: float | None = None
) -> Check:
    """Return the check for this command, or for the task's own; raises ValueError without either.

    The task's time limit and folder apply to its own command only. Its expected exit code applies
    to every command, as the server knows no other.
    """
    named = payload.get("verify") if isinstance(payload, Mapping) else None
    verify = named if isinstance(named, Mapping) else {}
    known = verify if command is None else {}
    wanted = command or known.get("command")
    if not wanted:
        raise ValueError("The task declares no verify command. Name the one to run.")
    return Check(
        wanted,
        cwd=cwd or known.get("cwd"),
        timeout_s=timeout_s or known.get("timeout_s") or TIMEOUT_S,
        expect_exit=verify.get("expect_exit") or 0,
    )


def run(
    check: Check,
    *,
    should_stop: Callable[[], bool],
    is_shown: bool = False,
    collected: OutputBuffer | None = None,
) -> Verified:
    """Run a check; run it once more if it fails on files on which it passed before."""

    def run_now() -> Verified:
        return run_once(check, should_stop=should_stop, is_shown=is_shown, collected=collected)

    found = run_now()
    if found.passed:
        note_pass(found, os.environ)
    elif not should_stop() and has_passed(found, os.environ):
        found = replace(run_now(), first=found)
    return found


def run_once(
    check: Check,
    *,
    should_stop: Callable[[], bool],
    is_shown: bool = False,
    collected: OutputBuffer | None = None,
) -> Verified:
    """Run a check in a shell with its own process group; its output and the tree are stored.

    `collected` gets the output as it comes.
    """
    began = time.monotonic()
    until = began + check.timeout_s
    ended = runner.run(
        ["sh", "-c", check.command],
        env=os.environ,
        should_stop=lambda: should_stop() or time.monotonic() > until,
        cwd=check.cwd,
        is_shown=is_shown,
        output=collected,
    )
    if ended.group:
        runner.stop_group(ended.group)
    timed_out = ended.was_stopped and time.monotonic() > until
    at_timeout = KILLED if check.expect_exit == TIMED_OUT else TIMED_OUT
    return Verified(
        check,
        at_timeout if timed_out else ended.code,
        ended.output,
        time.monotonic() - began,
        timed_out,
        # After the check, which may write files of its own.
        read_tree(check.cwd),
        datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )


def deciding_check(found: Mapping[str, Verified]) -> Verified | None:
    """Return the check that a report contains: the first that failed, else the last."""
    *_, last = [None, *found.values()]
    return next((each for each in found.values() if not each.passed), last)


def truncate_output(output: str) -> str:
    """Return as much of an output as a report can contain, without NUL characters."""
    text = output = output.replace("\x00", "\ufffd")
    # In JSON a character takes one to twelve bytes.
    room = OUTPUT_BYTES
    while len(json.dumps(text)) > OUTPUT_BYTES:
        room //= 2
        text = cut_middle(output, room)
    return text
