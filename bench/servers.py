"""A throwaway PostgreSQL and Redis with the durability of real ones, and databases on them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit, urlunsplit

import psycopg

from config.local import embedded, places
from config.local.commands import Command
from config.local.embedded import Servers
from config.local.places import PROJECT


class Missing(Exception):
    """Something is needed that Tenfour does not bring; the text says what and where it comes from."""


@dataclass(frozen=True)
class Ground:
    """Where everything runs: a folder that goes away afterwards, and two servers in it."""

    folder: Path
    urls: dict[str, str]

    def database(self, name: str) -> str:
        """The URL of a database on the server."""
        return urlunsplit(urlsplit(self.urls["DATABASE_URL"])._replace(path=f"/{name}"))

    def create(self, name: str, *, template: str = "template1") -> str:
        """Make a database, as a copy of `template`, and return its URL."""
        with psycopg.connect(self.urls["DATABASE_URL"], autocommit=True) as conn:
            conn.execute(f"create database {name} template {template}")
        return self.database(name)

    def env(self, database_url: str) -> dict[str, str]:
        """The environment of a Tenfour process on that database."""
        mine = {name: text for name, text in os.environ.items() if not name.startswith("TENFOUR_")}
        return {
            **mine,
            **self.urls,
            "DATABASE_URL": database_url,
            "TENFOUR_DATA": str(self.folder / "data"),
            "TENFOUR_SECRET_KEY": "bench" * 10,
            "TENFOUR_LOG_LEVEL": "WARNING",
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "PYTHONPATH": str(PROJECT),
        }

    def migrated(self, name: str) -> str:
        """The URL of a new database with Tenfour's tables."""
        url = self.create(name)
        argv = ["manage.py", "migrate", "--skip-checks", "-v0"]
        subprocess.run([sys.executable, *argv], env=self.env(url), cwd=PROJECT, check=True)
        return url

    def fill(self, database_url: str, *steps: tuple[str, dict[str, Any]]) -> list[Any]:
        """Run steps of `bench.fill` on a database of Tenfour's; returns what each returned."""
        argv = [sys.executable, "-m", "bench.fill", json.dumps(steps)]
        env = self.env(database_url)
        done = subprocess.run(argv, env=env, cwd=PROJECT, check=True, stdout=subprocess.PIPE)
        return [json.loads(line) for line in done.stdout.splitlines()]


def python_with(ground: Ground, name: str, packages: list[str]) -> Path:
    """The Python of a new environment, thrown away afterwards; raises Missing."""
    folder = ground.folder / name
    python = folder / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", *packages]
    try:
        for argv in ([sys.executable, "-m", "venv", str(folder)], install):
            subprocess.run(argv, check=True, capture_output=True, text=True, timeout=180)
    except (subprocess.SubprocessError, OSError) as error:
        why = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[-1]
        raise Missing(f"{', '.join(packages)} can't be installed here ({why}).") from error
    return python


@contextmanager
def ground() -> Iterator[Ground]:
    """Start both servers; stop them and remove their data at the end."""
    # On many machines the folder for temporary files is memory, where fsync costs nothing.
    lasting = "/var/tmp" if Path("/var/tmp").is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="tenfour-bench-", dir=lasting))
    folder.chmod(0o711)  # whoever the servers run as gets through to their own folders
    try:
        servers = embedded.servers_of(places.place_of(folder / "data"))
        # Made as for tests, so that Tenfour's role may create databases; run as durable as any.
        replace(servers, throwaway=True).create()
        with running(servers):
            yield Ground(folder, servers.urls)
    finally:
        with suppress(places.Refused):
            places.remove(folder / "data")
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def running(servers: Servers) -> Iterator[None]:
    log = servers.place.data.parent / "servers.log"
    with (
        log.open("w") as output,
        started(servers.postgres_command(), output=output),
        started(servers.redis_command(), output=output),
    ):
        until(lambda: embedded.postgres_answers(servers.postgres.port), "PostgreSQL")
        until(lambda: embedded.redis_answers(servers.redis.port), "Redis")
        yield


@contextmanager
def started(command: Command, *, output: int | IO[Any] = subprocess.DEVNULL) -> Iterator[int]:
    """Run a program for as long as the block; gives its process id."""
    process = subprocess.Popen(
        command.argv, stdout=output, stderr=output, stdin=subprocess.DEVNULL, **command.options()
    )
    try:
        yield process.pid
    finally:
        process.send_signal(command.stop)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()


def until(true: Callable[[], bool], what: str, *, seconds: float = 60) -> None:
    """Wait for something to become true; raises TimeoutError."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} was not there within {seconds:.0f} s")
        time.sleep(0.05)
