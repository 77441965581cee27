"""Web servers of their own for tests that stall, kill, or stop them."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import AnyStr

import pytest

from config.local.commands import Command
from config.local.listeners import open_listener
from tests.processes import has_threads
from tests.serving import collect_static_files, serve
from tests.waiting import PATIENCE_S, wait_until

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: tenfour\r\nConnection: close\r\n\r\n"


@dataclass
class Served:
    """A running web server."""

    process: "subprocess.Popen[bytes]"
    address: tuple[str, int]

    def workers(self) -> list[int]:
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in path.read_text().split()]

    def started_workers(self) -> list[int]:
        """Wait until both workers have started, and return their process IDs.

        The first one may respond before the second one is forked. A worker that has threads has
        already asked to end with the main process.
        """

        def find() -> list[int]:
            workers = self.workers()
            return workers if len(workers) == 2 and all(map(has_threads, workers)) else []

        return wait_until(find)

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=PATIENCE_S)

    def ask(self, request: bytes) -> bytes:
        """Send a request and return the response up to the end of the connection."""
        with self.connect() as connection:
            connection.sendall(request)
            return read_all(connection)

    def is_healthy(self) -> bool:
        try:
            return self.ask(HEALTH).startswith(b"HTTP/1.1 200 ")
        except OSError:
            return False


@pytest.fixture(scope="module")
def served(django_db_setup: None) -> Iterator[Served]:
    with run_server() as served:
        yield served


@contextmanager
def run_server(*, workers: int = 2, **env: str) -> Iterator[Served]:
    """Run Tenfour on the test database, by default with an installation's number of workers."""
    collect_static_files()
    with (
        open_listener("127.0.0.1", 0) as listener,
        ending(serve(listener.fileno(), workers=workers, **env)) as process,
    ):
        running = Served(process, listener.getsockname()[:2])
        wait_until(running.is_healthy)
        yield running


def start_web_server(
    *argv: str, prefix: Sequence[str] = (), **env: str
) -> "subprocess.Popen[bytes]":
    server = [*prefix, sys.executable, "-m", "config.web_server"]
    command = Command([*server, *argv], env=os.environ | env)
    return subprocess.Popen(
        command.argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **command.options()
    )


@contextmanager
def ending(process: "subprocess.Popen[AnyStr]") -> Iterator["subprocess.Popen[AnyStr]"]:
    """Kill the process at the end of the block."""
    with process:  # at its end it waits for the process
        try:
            yield process
        finally:
            process.kill()


def read_all(connection: socket.socket) -> bytes:
    pieces = []
    while piece := connection.recv(65_536):
        pieces.append(piece)
    return b"".join(pieces)
