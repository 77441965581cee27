"""Read what an attempt changes in a git repository, and the environment that it runs in.

Source leaves this machine only with `--diffs`, and without secrets that this machine knows.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tenfour.checks.trees import FOREIGN, GIT
from tenfour.redaction.masking import masked
from tenfour.setup.connections import find_connection

TIMEOUT_S = 10.0
# A heartbeat takes so many characters.
MOST_DIFF = 128 * 1024
# A new file that is larger is data, not source.
MOST_FILE_BYTES = 256 * 1024
MOST_NEW_FILES = 1000
FILE = re.compile(r"^(?=diff --git )", re.MULTILINE)
LEFT_OUT = "[… more files left out: {files:,} …]\n"
# Names of files are printed as they are.
PLAIN_GIT = (*GIT, "-c", "core.quotePath=false")
DIFF = (
    *("diff-tree", "-r", "-p", "-M", "--no-color", "--no-ext-diff", "--no-textconv"),
    *("--src-prefix=a/", "--dst-prefix=b/"),
)
# What tells the version of a tool, by its name.
TOOLS = {
    "python": ("python3", "--version"),
    "node": ("node", "--version"),
    "go": ("go", "version"),
    "rust": ("rustc", "--version"),
    "java": ("java", "-version"),
    "ruby": ("ruby", "--version"),
    "php": ("php", "--version"),
    "dotnet": ("dotnet", "--version"),
}
TOOLS_TIMEOUT_S = 3.0
VERSION_LENGTH = 100


class NoDiff(Exception):
    """There is no diff, and why."""


def shares_diffs(url: str, folder: Path, environ: Mapping[str, str]) -> bool:
    """Return whether diffs may leave this machine, as a person said to `tenfour init`."""
    known = find_connection(folder, environ)
    return known is not None and known.diffs and known.url == url


class SourceWatch:
    """The files of a repository as they were, to be compared with what they are later.

    Its index and objects are copies in `folder`, which the repository does not know.
    """

    def __init__(self, folder: Path, *, at: str) -> None:
        self._folder = folder
        self._top = ask_git(at, "rev-parse", "--show-toplevel").rstrip("\n")
        index, objects = (
            os.path.join(self._top, ask_git(self._top, "rev-parse", "--git-path", name).strip())
            for name in ("index", "objects")
        )
        (folder / "objects").mkdir(mode=0o700, exist_ok=True)
        self._environ = {
            "GIT_INDEX_FILE": str(folder / "index"),
            "GIT_OBJECT_DIRECTORY": str(folder / "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": objects,
        }
        with suppress(FileNotFoundError):
            shutil.copyfile(index, folder / "index")
        self._before = self._write_tree()

    def read_diff(self) -> str:
        """Return what has changed since this began; raises NoDiff."""
        text = ask_git(self._top, *DIFF, self._before, self._write_tree(), **self._environ)
        return clip_files(masked(text, os.environ))

    def _write_tree(self) -> str:
        """Return the name of a tree with the files as they are, without those that git ignores."""
        ask_git(self._top, "add", "--update", **self._environ)
        others = ("ls-files", "--others", "--exclude-standard", "-z")
        found = ask_git(self._top, *others, **self._environ).split("\0")
        new = [name for name in found if name and self._is_source(name)][:MOST_NEW_FILES]
        given = "".join(f"{name}\0" for name in new)
        ask_git(self._top, "update-index", "--add", "-z", "--stdin", given=given, **self._environ)
        return ask_git(self._top, "write-tree", **self._environ).strip()

    def _is_source(self, name: str) -> bool:
        with suppress(OSError):
            path = os.path.join(self._top, name)
            return os.path.isfile(path) and os.path.getsize(path) <= MOST_FILE_BYTES
        return False


def ask_git(at: str, *args: str, given: str = "", **environ: str) -> str:
    """Return what git prints; raises NoDiff if it fails or takes too long."""
    own = {name: value for name, value in os.environ.items() if name not in FOREIGN}
    try:
        ended = subprocess.run(
            [*PLAIN_GIT, "-C", at, *args],
            env=own | environ,
            input=os.fsencode(given),
            capture_output=True,
            timeout=TIMEOUT_S,
            check=True,
        )
    except FileNotFoundError as error:
        raise NoDiff("git is not installed") from error
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").strip().splitlines()
        said = lines[-1].removeprefix("fatal: ") if lines else f"git {args[0]} failed"
        raise NoDiff(said.rstrip(".")) from error
    except (subprocess.SubprocessError, OSError) as error:
        raise NoDiff(str(error)) from error
    return os.fsdecode(ended.stdout).encode(errors="replace").decode()


def clip_files(diff: str) -> str:
    """Return as many files of a diff as a heartbeat takes."""
    if len(diff) <= MOST_DIFF:
        return diff
    kept, room = [], MOST_DIFF - len(LEFT_OUT) - 10
    files = [each for each in FILE.split(diff) if each]
    for each in files:
        if len(each) <= room:
            kept.append(each)
            room -= len(each)
    return "".join(kept) + LEFT_OUT.format(files=len(files) - len(kept))


def watch_source(folder: Path, *, at: str | None = None) -> SourceWatch:
    """Return a watch of the repository at a folder, by default this one; raises NoDiff."""
    try:
        return SourceWatch(folder, at=at or os.getcwd())
    except OSError as error:
        raise NoDiff(str(error)) from error


def make_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a folder for a watch, which is removed at the end."""
    return tempfile.TemporaryDirectory(prefix="tenfour-diff-", ignore_cleanup_errors=True)


def read_environment(*, at: str | None = None) -> dict[str, str]:
    """Return where an attempt runs: folder, branch, system, and the versions of tools."""
    folder = at or os.getcwd()
    found = {"folder": folder, "system": f"{platform.system()} {platform.machine()}"}
    with suppress(NoDiff):
        found["branch"] = ask_git(folder, "branch", "--show-current").strip()
    found |= read_versions(folder)
    return {name: masked(value, os.environ) for name, value in found.items() if value}


def read_versions(folder: str) -> dict[str, str]:
    """Return the first line that each known tool prints about its version; all run at once."""
    started = {}
    for name, command in TOOLS.items():
        if shutil.which(command[0]):
            with suppress(OSError):
                started[name] = subprocess.Popen(
                    command,
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                )
    found = {}
    for name, child in started.items():
        try:
            text = child.communicate(timeout=TOOLS_TIMEOUT_S)[0].decode(errors="replace")
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            continue
        if child.returncode == 0 and text.strip():
            found[name] = text.strip().splitlines()[0][:VERSION_LENGTH]
    return found
