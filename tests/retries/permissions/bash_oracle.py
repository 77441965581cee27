"""What bash does with a line: the programs that it starts, and the files that it leaves.

All programs are stand-ins that write down their words. A line that could reach a file by an absolute
path must not be run.
"""

import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

BASH = "/bin/bash"
# `#` counts the words, so that an empty one is kept.
STAND_IN = """\
#!/bin/sh
printf '%s\\0' "$#" "${0##*/}" "$@" >> "LOG"
"""
FOLDERS = ("src", "docs", "web")


@dataclass(frozen=True)
class Ran:
    """The words of each program that was started, and the names of new files."""

    commands: list[tuple[str, ...]]
    files: set[str]


class BashOracle:
    """Runs lines in a folder of its own; `programs` are found on the path, and nothing else."""

    def __init__(self, folder: Path, programs: Iterable[str]) -> None:
        self.log = folder / "log"
        self.programs = folder / "programs"
        self.work = folder / "above" / "app"
        self.programs.mkdir()
        self.work.mkdir(parents=True)
        stand_in = folder / "stand-in"
        stand_in.write_text(STAND_IN.replace("LOG", str(self.log)))
        stand_in.chmod(0o755)
        for program in programs:
            if "/" not in program:
                (self.programs / program).symlink_to(stand_in)
            elif program.startswith("./"):
                (self.work / program).symlink_to(stand_in)
        for name in FOLDERS:
            (self.work / name).mkdir()
        self.before = self.list_files()
        assert self.run("sh 'a b' ''").commands == [("sh", "a b", "")]

    def list_files(self) -> set[str]:
        return {str(path) for path in self.work.parent.rglob("*")}

    def run(self, line: str) -> Ran:
        self.log.write_bytes(b"")
        subprocess.run(
            [BASH, "--norc", "--noprofile", "-c", line],
            cwd=self.work,
            env={"PATH": str(self.programs), "HOME": str(self.work.parent)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=30,
        )
        files = self.list_files() - self.before
        for path in files:
            shutil.rmtree(path) if Path(path).is_dir() else Path(path).unlink(missing_ok=True)
        return Ran(list(split_log(self.log.read_bytes())), files)


def split_log(log: bytes) -> Iterable[tuple[str, ...]]:
    parts = log.decode(errors="surrogateescape").split("\0")
    at = 0
    while at < len(parts) - 1:
        count = int(parts[at])
        yield tuple(parts[at + 1 : at + 2 + count])
        at += 2 + count
