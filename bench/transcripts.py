"""Time the import of a long transcript with `tenfour session import`, and of the same file again."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.client import environment
from bench.figures import Figure, Say, Scale, at_most
from bench.http import run_web_server
from bench.servers import Sandbox
from config.local.places import PROJECT

LINES, LIMIT_S = 10_000, 20
# An output of a tool, in the length that a test run prints.
OUTPUT = "".join(f"tests/test_parser.py::test_line_{n} PASSED\n" for n in range(40))


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    """Return the seconds that an import takes, and one of a file that the server has already."""
    database = sandbox.create_migrated("tenfour_transcripts")
    secrets = sandbox.seed(database, ("agents", {"count": 1}), ("tokens", {"count": 1}))[1]
    first: list[float] = []
    again: list[float] = []
    with run_web_server(sandbox, "config.wsgi:application", database) as url:
        env = environment(sandbox, url, next(iter(secrets.values())))
        for number in range(scale.rounds):
            path = sandbox.folder / f"transcript-{number}.jsonl"
            path.write_text("".join(write_lines(f"bench-{number}")))
            first.append(time_import(path, env))
            again.append(time_import(path, env))
            say(f"imported {LINES} lines in {first[-1]:.1f} s, again in {again[-1]:.1f} s")
    size = f"{LINES} lines, {path.stat().st_size / 1024 / 1024:.0f} MiB"
    return [
        Figure("import of a transcript", first, unit="s", target=at_most(LIMIT_S), note=size),
        Figure("the same transcript again", again, unit="s", target=at_most(LIMIT_S), note=size),
    ]


def time_import(path: Path, env: Mapping[str, str]) -> float:
    """Run the command and return its seconds; raises CalledProcessError if it fails."""
    began = time.monotonic()
    command = [sys.executable, "-m", "tenfour", "session", "import", str(path), "--tracker", "none"]
    subprocess.run(command, env=dict(env), cwd=PROJECT, check=True, capture_output=True)
    return time.monotonic() - began


def write_lines(session: str) -> Iterator[str]:
    """Yield the lines of a transcript: a prompt, calls of tools with their outputs, to-dos."""
    for number in range(LINES):
        kind, content = message_at(number)
        line = {
            "type": kind,
            "sessionId": session,
            "uuid": f"{session}-{number}",
            "timestamp": f"2026-11-22T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}Z",
            "message": {"role": kind, "content": content},
        }
        yield json.dumps(line) + "\n"


def message_at(number: int) -> tuple[str, Any]:
    if number % 100 == 0:
        return "user", f"Write parser number {number}"
    if number % 2:
        call = {"type": "tool_use", "id": f"t{number}", "name": "Bash"}
        return "assistant", [call | {"input": {"command": f"make test N={number}"}}]
    return "user", [{"type": "tool_result", "tool_use_id": f"t{number - 1}", "content": OUTPUT}]
