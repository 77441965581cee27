"""Runs the command that checks a task, next to the code; the server judges its exit code."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tenfour import runner
from tenfour.redaction import masked

TIMEOUT_S = 120.0
TIMED_OUT = 124
COMMAND_LENGTH = 4096
# A report is one JSON text of at most 256 KiB. Of an output whose characters are mostly escaped in
# it, the end alone is sent: no character takes more than twelve.
OUTPUT_BYTES, END_LENGTH = 180_000, 15_000


@dataclass(frozen=True)
class Check:
    """A command to run: where, for how long, and the exit code that it should have."""

    command: str
    cwd: str | None = None
    timeout_s: float = TIMEOUT_S
    expect_exit: int = 0


@dataclass(frozen=True)
class Verified:
    """How a check ended; `output` is the head and the tail of a long one."""

    check: Check
    exit_code: int
    output: str
    duration_s: float
    timed_out: bool = False

    @property
    def passed(self) -> bool:
        return self.exit_code == self.check.expect_exit and not self.timed_out

    @property
    def told(self) -> dict[str, Any]:
        """As a report tells it."""
        return {
            "command": masked(self.check.command, os.environ)[:COMMAND_LENGTH],
            "exit_code": self.exit_code,
            "duration_s": round(self.duration_s, 3),
            "output": fitting(masked(self.output, os.environ)),
        }

    @property
    def failure(self) -> dict[str, Any] | None:
        """What the server can't see from the exit code: that it ran out of time."""
        if not self.timed_out:
            return None
        message = f"The check did not end within {self.check.timeout_s:g} s."
        return {"type": "timeout", "message": message}


def asked(
    payload: Any, command: str | None, *, cwd: str | None = None, timeout_s: float | None = None
) -> Check:
    """The check of this command, or of the one that the task names; ValueError without either.

    What the task says of the time, the folder and the exit code is said of its own command; an
    exit code that it expects holds for every one, as the server has no other.
    """
    named = payload.get("verify") if isinstance(payload, Mapping) else None
    verify = named if isinstance(named, Mapping) else {}
    known = verify if command is None else {}
    wanted = command or known.get("command")
    if not wanted:
        raise ValueError("The task names no verify command: say which one to run.")
    return Check(
        wanted,
        cwd=cwd or known.get("cwd"),
        timeout_s=timeout_s or known.get("timeout_s") or TIMEOUT_S,
        expect_exit=verify.get("expect_exit") or 0,
    )


def run(check: Check, *, should_stop: Callable[[], bool], is_shown: bool = False) -> Verified:
    """Runs it in a shell and a group of processes of its own; what it prints is kept."""
    began = time.monotonic()
    until = began + check.timeout_s
    ended = runner.run(
        ["sh", "-c", check.command],
        env=os.environ,
        should_stop=lambda: should_stop() or time.monotonic() > until,
        cwd=check.cwd,
        is_shown=is_shown,
    )
    timed_out = ended.was_stopped and time.monotonic() > until
    return Verified(
        check,
        TIMED_OUT if timed_out else ended.code,
        ended.output,
        time.monotonic() - began,
        timed_out,
    )


def standing(found: Mapping[str, Verified]) -> Verified | None:
    """What of several checks a report tells: the first that failed, else the last."""
    *_, last = [None, *found.values()]
    return next((each for each in found.values() if not each.passed), last)


def fitting(output: str) -> str:
    """As much of it as a report takes, without the one character that none may have."""
    output = output.replace("\x00", "\ufffd")
    return output if len(json.dumps(output)) <= OUTPUT_BYTES else f"[…]\n{output[-END_LENGTH:]}"
