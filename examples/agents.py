"""Run one of three small agents that receive instructions from Tenfour over HTTP.

    TENFOUR_URL=… TENFOUR_TOKEN=… python examples/agents.py steady  # follows each instruction
    TENFOUR_URL=… TENFOUR_TOKEN=… python examples/agents.py picky   # follows IMPORTANT reminders
    TENFOUR_URL=… TENFOUR_TOKEN=… python examples/agents.py deaf    # follows people only

A real agent's model reads the text and decides what to run. These agents look the text up in a
short table and run nothing else. They report their work as signals, so they need no IDs.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tenfour import Client, Instruction, TenfourError

OUTPUT_LIMIT = 2000
ENTRIES_LIMIT = 100


@dataclass(frozen=True)
class Report:
    """A completed action in the form of a signal."""

    type: str
    data: Mapping[str, Any] = field(default_factory=dict)


# ---- actions


def run(line: str) -> Report:
    """Run a command without a shell and report its result."""
    argv = shlex.split(line)
    program = sys.executable if argv[0] == "python3" else argv[0]
    data: dict[str, Any] = {"command": argv[0], "line": line}
    try:
        done = subprocess.run(
            [program, *argv[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=20,
        )
    except FileNotFoundError:
        return Report("fs_command", data | {"found": False, "exit_code": 127, "output": ""})
    except (OSError, subprocess.TimeoutExpired) as error:
        return Report("fs_command", data | {"found": True, "exit_code": 126, "output": str(error)})
    output = done.stdout.decode(errors="replace").strip()[:OUTPUT_LIMIT]
    return Report(
        "fs_command", data | {"found": True, "exit_code": done.returncode, "output": output}
    )


def list_folder(path: str) -> Report:
    folder = Path(path)
    entries = sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []
    data = {"path": path, "exists": folder.is_dir(), "entries": entries[:ENTRIES_LIMIT]}
    return Report("fs_directory", data)


def read_text(path: str) -> Report:
    file = Path(path)
    content = file.read_text(errors="replace")[:OUTPUT_LIMIT] if file.is_file() else ""
    return Report("fs_file", {"path": path, "exists": file.is_file(), "content": content})


def describe_system() -> Report:
    about = {"os": platform.system(), "release": platform.release(), "machine": platform.machine()}
    return Report("client_context", about)


COMMANDS = (
    "python3 --version",
    "git --version",
    "openspec --version",
    "uname -sr",
    "date -u",
    "df -h .",
    "nproc",
    "uptime",
)
# The text that an instruction must contain, and the action. The agents do nothing else.
ACTIONS: Mapping[str, Callable[[], Report]] = {
    **{f"`{line}`": lambda line=line: run(line) for line in COMMANDS},  # type: ignore[misc]
    "`openspec/`": lambda: list_folder("openspec"),
    "`.workflow.yaml`": lambda: read_text(".workflow.yaml"),
    "operating system": describe_system,
}


def perform(text: str) -> Report | None:
    """Perform the action that the text names; return None if it names no known action."""
    return next((action() for phrase, action in ACTIONS.items() if phrase in text), None)


# ---- agents


def steady(tenfour: Client, instruction: Instruction) -> str:
    """Follow the instruction at once and report it; decline unknown actions."""
    report = perform(instruction.text)
    if report is None:
        tenfour.instructions.ack(instruction.id, outcome="declined", note="I do not know how.")
        return "declined, not among what it knows"
    if instruction.id not in tenfour.signal(report.type, report.data):
        # The sender expects no such signal, so acknowledge by ID.
        tenfour.instructions.ack(instruction.id, note=str(report.data.get("output", ""))[:200])
    return f"done, {summarize(report)}"


def picky(tenfour: Client, instruction: Instruction) -> str:
    """Follow the instruction only after a reminder marked as important."""
    if not instruction.text.startswith("**IMPORTANT:**"):
        return "not important enough"
    return steady(tenfour, instruction)


def deaf(tenfour: Client, instruction: Instruction) -> str:
    """Ignore the instruction unless a person sent it."""
    if (instruction.sent_by or {}).get("type") == "user":
        return steady(tenfour, instruction)
    return "ignored"


def summarize(report: Report) -> str:
    if report.data.get("found") is False:
        return f"{report.data['command']} is not there"
    lines = str(report.data.get("output") or report.type).splitlines()
    return f"reported {report.type}: {lines[-1][:60]}"


AGENTS: Mapping[str, Callable[[Client, Instruction], str]] = {
    "steady": steady,
    "picky": picky,
    "deaf": deaf,
}


def work(tenfour: Client, name: str, *, every_s: float | None) -> None:
    """Pull and follow instructions forever; retry while the server is unavailable."""
    while True:
        wait = every_s or 5.0
        try:
            pulled = tenfour.instructions.pull()
            wait = every_s or pulled.retry_after_s or wait
            for instruction in pulled:
                result = AGENTS[name](tenfour, instruction)
                print(f"{name:<7}| {instruction.text}  →  {result}", flush=True)
        except TenfourError as error:
            if not error.retryable:
                raise
            print(f"{name:<7}| {error.sentence}", file=sys.stderr, flush=True)
        time.sleep(wait)


def exit_with_parent() -> None:
    """Exit when stdin closes, which means that the parent process has ended.

    If this process leads its process group, kill the whole group.
    """

    def watch() -> None:
        while os.read(0, 1024):
            pass
        if os.getpgrp() == os.getpid():
            os.killpg(os.getpid(), signal.SIGKILL)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("agent", choices=AGENTS)
    parser.add_argument("--every", type=float, metavar="SECONDS", help="how often to pull")
    parser.add_argument("--with-parent", action="store_true", help="exit when stdin closes")
    args = parser.parse_args()
    if args.with_parent:
        exit_with_parent()
    try:
        with Client() as tenfour:
            work(tenfour, args.agent, every_s=args.every)
    except TenfourError as error:
        print(f"{args.agent}: {error.sentence} {error.hint}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
