"""Older versions beside this one, such as the last release: their files, and a shared database.

Their files come from the history of the project's own repository. A copy without this history, such
as an archive or a shallow clone, can't run the tests that need them.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from config.local.places import PROJECT

# Set it to the release's commit when a version has been released.
COMMIT = "62d28de8f6361bc662e917cae778c14d58b44300"
DATABASE = "versions"


@dataclass(frozen=True)
class Version:
    """One version's files, whose programs run on the database that both versions share."""

    tree: Path
    database: str = DATABASE

    @property
    def env(self) -> dict[str, str]:
        # The path of this process's own tests must not come before the version's.
        paths = os.pathsep.join([str(self.tree), str(self.tree / "client")])
        ours = {"PYTHONPATH": paths, "DATABASE_URL": url_of(self.database)}
        return os.environ | ours | {"DJANGO_SETTINGS_MODULE": "config.settings"}

    def command(self, *argv: str) -> list[str]:
        """Return a Python command that imports this version's modules, and no others of ours."""
        return [sys.executable, "-P", *argv]

    def run(self, *argv: str) -> str:
        """Run a Python program and return what it prints."""
        done = subprocess.run(
            self.command(*argv), cwd=self.tree, env=self.env, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def manage(self, *argv: str) -> str:
        return self.run("manage.py", *argv)


TODAY = Version(PROJECT)


@dataclass(frozen=True)
class Side:
    """A process that answers requests by one version's code."""

    process: "subprocess.Popen[str]"
    tokens: dict[str, str]

    def get(self, path: str, *, by: str = "operator") -> Any:
        return self.ask(path=path, token=self.tokens[by], body=None)

    def post(self, path: str, body: Any, *, by: str) -> Any:
        return self.ask(path=path, token=self.tokens[by], body=body)

    def ask(self, **call: Any) -> Any:
        """Send a call and return the answer's body; any refusal fails the test."""
        assert self.process.stdin and self.process.stdout
        print(json.dumps(call), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        assert line, f"{call}: the process has ended, see its output"
        status, body = json.loads(line)
        assert status in (200, 201), (call, status, body)
        return body


@contextmanager
def start_side(version: Version, tokens: dict[str, str]) -> Iterator[Side]:
    command = version.command(str(Path(__file__).with_name("side.py")))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=version.tree, env=version.env, **pipes) as process:
        yield Side(process, tokens)


def url_of(database: str) -> str:
    return urlunsplit(urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{database}"))


def unpack_last_release(folder: Path) -> Version:
    return unpack(COMMIT, folder)


def unpack(commit: str, folder: Path, *, database: str = DATABASE) -> Version:
    """Write the files of a commit into a folder; skip the test where the commit is missing."""
    archive = subprocess.run(
        ["git", "archive", "--format=tar", commit], cwd=PROJECT, capture_output=True, check=False
    )
    if archive.returncode:
        pytest.skip(
            f"an older version can't be tested: git has no commit {commit[:8]} here "
            f"({archive.stderr.decode().strip()}); fetch the whole history"
        )
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return Version(folder, database)


def query(statement: str) -> list[tuple[object, ...]]:
    """Run a statement on the database that both versions share."""
    with psycopg.connect(url_of(DATABASE), autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []
