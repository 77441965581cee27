"""The tree that a command ran on: the commit, and a hash of the files that differ from it."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

# An agent waits for this. A tree that takes longer, or is larger, is not read.
TIMEOUT_S = 3.0
MOST_BYTES = 64 * 1024 * 1024
MOST_FILES = 5000
CHUNK = 256 * 1024

# It changes nothing in the repository, and starts no program that the repository names.
GIT = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false")
TOP = ("rev-parse", "--show-toplevel")
STATUS = (
    "status",
    "--porcelain=v2",
    "-z",
    "--branch",
    "--untracked-files=all",
    "--ignore-submodules=none",
    "--no-renames",
)
CHANGED = ("diff", "--name-only", "--no-renames", "--ignore-submodules=none", "-z")
NEW = ("ls-files", "--others", "--exclude-standard", "-z")
COMMIT = "# branch.oid "
# The number of fields in front of the path, by the kind of an entry.
FIELDS = {"1": 8, "u": 10, "?": 1}
# A program that git itself runs sets these for another repository or index.
FOREIGN = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"}

Tree = dict[str, Any]


class Unread(Exception):
    """The folder has no tree, or none that is read in time."""


def read_tree(folder: str | None = None, *, before: Tree | None = None) -> Tree | None:
    """Return the tree of the repository that a folder is in, as a report contains it.

    None without git, a repository or a commit. Files that git ignores do not count. `diff` is a
    hash of the names and contents of the changed and the new files, `files` their number.

    `before` is an earlier reading. It is returned again where the files are the same and only
    commits were made meanwhile.
    """
    folder = folder or os.getcwd()
    try:
        found = Reading().read(folder)
    except (Unread, OSError):
        return None
    if before and found["commit"] != before["commit"]:
        with suppress(Unread, OSError):
            if Reading().read_since(folder, before["commit"]) == before:
                return before
    return found


class Reading:
    """One reading of a tree and the trees inside it, within the limits."""

    def __init__(self) -> None:
        self.until = time.monotonic() + TIMEOUT_S
        self.bytes = self.files = 0

    def read(self, folder: str) -> Tree:
        # git names paths relative to the top folder of the repository.
        top = self.ask(folder, *TOP).rstrip("\n")
        entries = self.ask(top, *STATUS).split("\0")
        commit = next((each for each in entries if each.startswith(COMMIT)), "")[len(COMMIT) :]
        if not commit.isalnum():
            raise Unread  # "(initial)": there is no commit
        return self.summarize(top, commit, sorted(names_in(entries)))

    def read_since(self, folder: str, commit: str) -> Tree:
        """Return the tree as the difference from a commit that is not the newest one."""
        top = self.ask(folder, *TOP).rstrip("\n")
        printed = self.ask(top, *CHANGED, commit, "--") + self.ask(top, *NEW)
        return self.summarize(top, commit, sorted({*printed.split("\0")} - {""}))

    def summarize(self, top: str, commit: str, names: list[str]) -> Tree:
        total = hashlib.sha256()
        for name in names:
            path = os.path.join(top, name)
            total.update(b"%b\0%b\0" % (os.fsencode(name), self.read_file(path)))
        return {"commit": commit, "diff": total.hexdigest() if names else None, "files": len(names)}

    def ask(self, folder: str, *args: str) -> str:
        """Return what git prints; raises Unread if it fails or takes too long."""
        environ = {name: value for name, value in os.environ.items() if name not in FOREIGN}
        try:
            ended = subprocess.run(
                [*GIT, "-C", folder, *args],
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=self.seconds_left(),
                check=True,
            )
        except subprocess.SubprocessError as error:
            raise Unread from error
        return os.fsdecode(ended.stdout)

    def read_file(self, path: str) -> bytes:
        """Return what a changed file is now, as text with the hash of its content."""
        self.files += 1
        if self.files > MOST_FILES:
            raise Unread
        try:
            mode = os.lstat(path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return b"deleted"
        if stat.S_ISLNK(mode):
            return b"link " + os.fsencode(os.readlink(path))
        if stat.S_ISDIR(mode):
            if not os.path.lexists(os.path.join(path, ".git")):
                return b"folder"  # where a file was
            inner = self.read(path)
            return f"repository {inner['commit']} {inner['diff']}".encode()
        if not stat.S_ISREG(mode):
            return b"special"
        kind = "program" if mode & stat.S_IXUSR else "file"
        return f"{kind} {self.hash_file(path)}".encode()

    def hash_file(self, path: str) -> str:
        found = hashlib.sha256()
        with open(path, "rb") as file:
            while data := file.read(CHUNK):
                self.bytes += len(data)
                if self.bytes > MOST_BYTES or not self.seconds_left():
                    raise Unread
                found.update(data)
        return found.hexdigest()

    def seconds_left(self) -> float:
        left = self.until - time.monotonic()
        if left <= 0:
            raise Unread
        return left


def names_in(entries: list[str]) -> Iterator[str]:
    """Yield the paths in the output of `git status`.

    >>> [*names_in(["# branch.head main", "1 .M N... 100644 100644 100644 a b a file", "? new"])]
    ['a file', 'new']
    """
    for entry in entries:
        count = FIELDS.get(entry[:1])
        if count and entry[1:2] == " ":
            yield entry.split(" ", count)[count]
