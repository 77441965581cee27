"""A real server to speak to: the web server on the test database, and tokens for it."""

import os
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from django.db import connection
from tenfour import Client
from tenfour.api import calls

from config.local.commands import Command
from ledger import agents, tokens
from ledger.journal import SYSTEM, Stamp
from ledger.models import Project
from tests.waiting import PATIENCE_S, wait_until

ROOT = Path(__file__).resolve().parents[1]
# Not in the home folder of who runs the tests.
STATE = tempfile.TemporaryDirectory(prefix="tenfour-state-")


@dataclass(frozen=True)
class Tenfour:
    """A running Tenfour with a project of its own."""

    url: str
    project: Project

    def token(self, kind: str, agent: str | None = None) -> str:
        named = agents.register(agent, project=self.project, stamp=Stamp(SYSTEM)) if agent else None
        _, secret = tokens.issue(kind, project=self.project, agent=named, stamp=Stamp(SYSTEM))
        return secret

    def client(self, kind: str, agent: str | None = None, **options: Any) -> Client:
        return Client(self.url, self.token(kind, agent), **options)


@pytest.fixture(scope="session")
def web_server(django_db_setup: None) -> Iterator[str]:
    """The URL of a web server on the test database, as `make up` runs it."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        process = serve(bound.fileno())
        try:
            with Client(url, "none", timeout=PATIENCE_S) as client:
                client.perform(calls.health())
            yield url
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE_S)


def serve(fd: int, *, workers: int = 1, **env: str) -> "subprocess.Popen[bytes]":
    """The web server as `make up` starts it, on a socket that is open already; it ends with us."""
    own = {
        "DATABASE_URL": database_of_tests(),
        "TENFOUR_BIND": f"fd://{fd}",
        "TENFOUR_WEB_WORKERS": str(workers),
    }
    command = Command(
        [sys.executable, "-m", "config.web_server"], env=os.environ | own | env, fds=(fd,)
    )
    return subprocess.Popen(command.argv, **command.options())


@cache
def collect_static_files() -> None:
    """Let servers that tests start render pages."""
    collect = [sys.executable, "manage.py", "collectstatic", "--noinput", "--skip-checks", "-v0"]
    subprocess.run(collect, cwd=ROOT, check=True)


def database_of_tests() -> str:
    """The URL of the database that the tests write to."""
    return url_of_database(connection.settings_dict["NAME"])


def url_of_database(name: str) -> str:
    return urlunsplit(urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}"))


@contextmanager
def make_database(name: str, *, migrated: bool = False) -> Iterator[str]:
    """Create a database, empty or with Tenfour's tables; yield its URL and drop it at the end."""
    from tests import services  # its import starts servers, which a child process must not

    template = services.MIGRATED if migrated and services.running else "template1"
    with psycopg.connect(url_of_database("postgres"), autocommit=True) as connection:
        connection.execute(f'create database "{name}" template "{template}"')
        try:
            yield url_of_database(name)
        finally:

            def is_dropped() -> bool:
                # Only a superuser could end the autovacuum worker that may be in there.
                with suppress(psycopg.errors.InsufficientPrivilege):
                    connection.execute(f'drop database "{name}" with (force)')
                    return True
                return False

            wait_until(is_dropped)


@contextmanager
def use_database(name: str) -> Iterator[None]:
    """Let Django's own connection use another database."""
    options = connection.settings_dict
    connection.close()
    before, options["NAME"] = options["NAME"], name
    try:
        yield
    finally:
        connection.close()
        options["NAME"] = before


@pytest.fixture
def tenfour_server(web_server: str, transactional_db: None) -> Tenfour:
    return Tenfour(web_server, Project.objects.create(name=f"client-{uuid.uuid4()}"))


@pytest.fixture
def producer(tenfour_server: Tenfour) -> Iterator[Client]:
    with tenfour_server.client("orchestrator") as client:
        yield client


@pytest.fixture
def agent_client(tenfour_server: Tenfour) -> Iterator[Client]:
    """The agent `coder`."""
    with tenfour_server.client("agent", "coder") as client:
        yield client


def environment(more: dict[str, str]) -> dict[str, str]:
    """What a process of an agent has: the client, and nothing of the server's."""
    own = {"PYTHONPATH": str(ROOT / "client"), "TENFOUR_STATE": STATE.name}
    return {"PATH": os.environ["PATH"]} | own | more
