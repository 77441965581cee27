"""Run a temporary PostgreSQL and Redis with production durability, and create databases."""

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


class MissingDependency(Exception):
    """A suite needs a program or data set that Tenfour does not include."""


@dataclass(frozen=True)
class Sandbox:
    """A temporary folder and the two servers that keep their data in it."""

    folder: Path
    urls: dict[str, str]
    migrated: str = ""  # the name of a database to copy instead of migrating a new one

    def database(self, name: str) -> str:
        """Return the URL of the database called `name`."""
        return urlunsplit(urlsplit(self.urls["DATABASE_URL"])._replace(path=f"/{name}"))

    def create(self, name: str, *, template: str = "template1") -> str:
        """Create a database from `template` and return its URL."""
        with psycopg.connect(self.urls["DATABASE_URL"], autocommit=True) as conn:
            conn.execute(f"create database {name} template {template}")
        return self.database(name)

    def env(self, database_url: str) -> dict[str, str]:
        """Return the environment of a Tenfour process that uses the database."""
        inherited = {
            name: text for name, text in os.environ.items() if not name.startswith("TENFOUR_")
        }
        return {
            **inherited,
            **self.urls,
            "DATABASE_URL": database_url,
            "TENFOUR_DATA": str(self.folder / "data"),
            "TENFOUR_SECRET_KEY": "bench" * 10,
            "TENFOUR_LOG_LEVEL": "WARNING",
            # The load creates more tasks than an agent may in a day.
            "TENFOUR_AGENT_TASKS_PER_DAY": "0",
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "PYTHONPATH": str(PROJECT),
        }

    def create_migrated(self, name: str) -> str:
        """Create a database with Tenfour's tables and return its URL."""
        if self.migrated:
            return self.create(name, template=self.migrated)
        url = self.create(name)
        argv = ["manage.py", "migrate", "--skip-checks", "-v0"]
        subprocess.run([sys.executable, *argv], env=self.env(url), cwd=PROJECT, check=True)
        return url

    def seed(self, database_url: str, *steps: tuple[str, dict[str, Any]]) -> list[Any]:
        """Run steps of `bench.seed` on a Tenfour database; return each step's result."""
        argv = [sys.executable, "-m", "bench.seed", json.dumps(steps)]
        env = self.env(database_url)
        completed = subprocess.run(argv, env=env, cwd=PROJECT, check=True, stdout=subprocess.PIPE)
        return [json.loads(line) for line in completed.stdout.splitlines()]


def install_packages(sandbox: Sandbox, name: str, packages: list[str]) -> Path:
    """Install packages into a temporary environment and return its Python.

    Raise MissingDependency if the installation fails.
    """
    folder = sandbox.folder / name
    python = folder / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", *packages]
    try:
        for argv in ([sys.executable, "-m", "venv", str(folder)], install):
            subprocess.run(argv, check=True, capture_output=True, text=True, timeout=180)
    except (subprocess.SubprocessError, OSError) as error:
        why = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[-1]
        raise MissingDependency(f"{', '.join(packages)} could not be installed ({why}).") from error
    return python


@contextmanager
def run_sandbox() -> Iterator[Sandbox]:
    """Start both servers; stop them and remove their data on exit."""
    with make_folder() as folder:
        try:
            servers = embedded.servers_of(places.place_of(folder / "data"))
            # Create them as tests do, so Tenfour's role may create databases; run them durably.
            replace(servers, throwaway=True).create()
            with run_servers(servers):
                yield Sandbox(folder, servers.urls)
        finally:
            with suppress(places.Refused):
                places.remove(folder / "data")


@contextmanager
def make_folder() -> Iterator[Path]:
    # The default temporary folder is often in memory, where fsync costs nothing.
    on_disk = "/var/tmp" if Path("/var/tmp").is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="tenfour-bench-", dir=on_disk))
    folder.chmod(0o711)  # the servers' user can reach its own folders
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def run_servers(servers: Servers) -> Iterator[None]:
    log = servers.place.data.parent / "servers.log"
    with (
        log.open("w") as output,
        run_program(servers.postgres_command(), output=output),
        run_program(servers.redis_command(), output=output),
    ):
        wait_until(lambda: embedded.postgres_answers(servers.postgres.port), "PostgreSQL")
        wait_until(lambda: embedded.redis_answers(servers.redis.port), "Redis")
        yield


@contextmanager
def run_program(command: Command, *, output: int | IO[Any] = subprocess.DEVNULL) -> Iterator[int]:
    """Run a program until the block ends; yield its process ID."""
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


def wait_until(condition: Callable[[], bool], what: str, *, seconds: float = 180) -> None:
    """Wait until the condition holds; raise TimeoutError if it takes too long."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} was not ready within {seconds:.0f} s")
        time.sleep(0.05)
