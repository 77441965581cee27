"""A small program with a strict command line and a log of its executions."""

import os
import shlex
import stat
import sys
from pathlib import Path

from tenfour import Program

from tests.waiting import PATIENCE_S

# A command line with a log of its executions. It refuses every word that it does not know.
SHELVES = """
import json, os, sys, time
args = sys.argv[1:]
with open(os.environ["SHELVES_LOG"], "a") as log:
    log.write(json.dumps(args) + "\\n")
if args == ["--help"]:
    print("usage: shelves list [--state open|closed] [--json] | add NAME | delete NAME | hang")
elif args[:1] == ["hang"]:
    time.sleep(600)
elif args[:1] == ["list"] and set(args[1:]) <= {"--json", "--state", "open", "closed"}:
    print(json.dumps([{"name": "a"}]) if "--json" in args else "a")
elif args[:1] in (["add"], ["delete"]) and len(args) == 2:
    print(json.dumps({args[0]: args[1]}))
else:
    print(f"shelves: error: unrecognized arguments: {' '.join(args)}", file=sys.stderr)
    sys.exit(2)
"""


class Shelves:
    """The program as this test sees it."""

    def __init__(self, folder: Path) -> None:
        path, code = folder / "shelves", folder / "shelves.py"
        code.write_text(SHELVES)
        # a line with #! can't name a path with a space
        path.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, str(code)])} "$@"\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        self._log = folder / "log"
        self._log.touch()
        env = os.environ | {"SHELVES_LOG": str(self._log)}
        self.program = Program(str(path), env=env, timeout_s=PATIENCE_S)
        self.slow = Program(str(path), env=env, timeout_s=0.5)

    def command(self, *args: str) -> str:
        """Return the program with arguments, as a person may copy it into a shell."""
        return shlex.join([self.program.name, *args])

    @property
    def lines(self) -> list[str]:
        return self._log.read_text().splitlines()

    @property
    def executions(self) -> int:
        return len(self.lines) - self.helps

    @property
    def helps(self) -> int:
        return self.lines.count('["--help"]')
