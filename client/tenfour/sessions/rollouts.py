"""Codex's own record of a session, the rollout: how the commands ended that its hooks only name.

A hook gets the output of a command and never its exit code; the rollout has both, by the call's id.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

# From the end of the file, which may have hundreds of megabytes.
TAIL_BYTES = 4 * 1024 * 1024
# Codex writes the record of a command beside the call of the hook.
PATIENCE_S = 0.5
LOOK_S = 0.05
# A command that a person has declined has not run.
ENDED = {"completed", "failed"}
# `cd nowhere && make test` has not run the tests; the server reads Claude Code's errors alike.
# This reads at most OUTPUT_LENGTH characters.
NOT_PREPARED = re.compile(
    r"\b(?:cd|pushd|source): (?:[^\n]{1,300}: )?"
    r"(?:no such file or directory|not a directory|permission denied|can't cd to)",
    re.I,
)
# All that the shell itself says where it finds no file to source, or to write to.
# This reads at most OUTPUT_LENGTH characters.
SHELL_ERROR = re.compile(
    r"[\w./-]{0,100}sh: (?:line )?\d{1,4}: [^\n]{1,300}: "
    r"(?:no such file or directory|not a directory|permission denied|is a directory)\s{0,9}\Z",
    re.I,
)
OUTPUT_LENGTH = 2000
RUNS_ON = b"Process running with session ID"
MARK = b'"CommandExecution"'


def find_exit_code(path: str, call: str, *, patience_s: float = PATIENCE_S) -> int | None:
    """Return the exit code of the call with this id; None where the rollout does not have it."""
    until = time.monotonic() + patience_s
    while True:
        for item in read_commands(path):
            if item["id"] == call:
                return None if is_lost(item) else int(item["exit_code"])
        if time.monotonic() > until or not os.path.isfile(path):
            return None
        time.sleep(LOOK_S)


def read_late_commands(path: str) -> list[dict[str, Any]]:
    """Return the commands that ran on after their call, oldest first; no hook tells their end."""
    calls = {call_of(line) for line in read_tail(path) if RUNS_ON in line}
    return [item for item in reversed([*read_commands(path)]) if item["id"] in calls]


def call_of(line: bytes) -> str:
    """Return the id of the call whose output a line is; empty if it is something else."""
    with suppress(ValueError, RecursionError):
        found = json.loads(line)
        payload = found.get("payload") if isinstance(found, dict) else None
        if isinstance(payload, dict) and payload.get("type") == "function_call_output":
            return str(payload.get("call_id"))
    return ""


def is_lost(item: Mapping[str, Any]) -> bool:
    """Return whether a line failed because it did not find its folder, or a file of its own."""
    output = item.get("aggregated_output")
    text = output[:OUTPUT_LENGTH] if isinstance(output, str) else ""
    is_refused = item["exit_code"] == 1 and bool(SHELL_ERROR.match(text))
    return is_refused or (item["exit_code"] != 0 and bool(NOT_PREPARED.search(text)))


def read_commands(path: str) -> Iterator[dict[str, Any]]:
    """Yield the commands that ended with an exit code, the newest first."""
    for line in reversed(read_tail(path)):
        if MARK not in line:
            continue
        with suppress(ValueError, RecursionError):
            item = command_in(json.loads(line))
            if item is not None:
                yield item


def read_tail(path: str, *, limit: int | None = None) -> list[bytes]:
    """Return the last whole lines of a file; none without one."""
    limit = limit or TAIL_BYTES
    with suppress(OSError), open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - limit))
        lines = file.read(limit).split(b"\n")
        # Codex is writing the last line, and the first one may lack its beginning.
        return lines[1 if size > limit else 0 : -1]
    return []


def command_in(line: Any) -> dict[str, Any] | None:
    """Return the command in a line of the rollout that tells its end."""
    payload = line.get("payload") if isinstance(line, dict) else None
    item = payload.get("item") if isinstance(payload, dict) else None
    if not isinstance(item, dict) or item.get("type") != "CommandExecution":
        return None
    code = item.get("exit_code")
    has_code = isinstance(code, int) and not isinstance(code, bool)
    is_known = has_code and item.get("status") in ENDED and isinstance(item.get("id"), str)
    return item if is_known else None
