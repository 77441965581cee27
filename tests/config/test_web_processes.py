"""The web server's processes: what kills, stops, and replaces them."""

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from config.local.embedded import free_port
from tests.config.test_stalled_clients import unfinished_requests
from tests.config.web_processes import (
    HEALTH,
    Served,
    ending,
    read_all,
    start_web_server,
    wait_until,
)
from tests.config.web_processes import served as served
from tests.serving import Tenfour

ECHO = "tests.config.environ_echo:application"

needs_tenfour = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def echo() -> Iterator[Served]:
    """A web server with an application that echoes, on a port that it binds itself."""
    port = free_port()
    bind = {"TENFOUR_BIND": f"127.0.0.1:{port}", "TENFOUR_WEB_WORKERS": "2"}
    with ending(start_web_server(ECHO, **bind, TENFOUR_TOKEN="not for requests")) as process:
        running = Served(process, ("127.0.0.1", port))
        wait_until(running.is_healthy)
        yield running


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_environment_stays_out_of_requests(echo: Served) -> None:
    """granian's own wrapper puts it into every request, from where error reports would show it."""
    seen = json.loads(echo.ask(HEALTH).partition(b"\r\n\r\n")[2])
    assert seen["PATH_INFO"] == "/healthz"
    assert not set(seen) & {"PATH", "TENFOUR_TOKEN", "TENFOUR_SECRET_KEY", "DATABASE_URL"}
    assert "not for requests" not in seen.values()


def test_connections_are_kept_and_chunks_are_read(echo: Served) -> None:
    head = b"POST / HTTP/1.1\r\nHost: tenfour\r\nTransfer-Encoding: chunked\r\n\r\n"
    with echo.connect() as connection:
        for _ in range(2):
            connection.sendall(head + b"5\r\nHello\r\n1\r\n!\r\n0\r\n\r\n")
            answer = connection.recv(65_536)
            assert b'"body": "Hello!"' in answer


def test_a_second_instance_on_the_port_is_refused(echo: Served) -> None:
    """granian by itself would share the port with it, without a word."""
    bind = f"127.0.0.1:{echo.address[1]}"
    with ending(start_web_server(ECHO, TENFOUR_BIND=bind)) as second:
        said, _ = second.communicate(timeout=20)
    assert second.returncode == 1
    assert said.decode() == (
        f"{bind} can't be used: Address already in use. Choose another TENFOUR_BIND.\n"
    )


def test_a_killed_worker_is_replaced(echo: Served) -> None:
    before = echo.workers()
    os.kill(before[0], signal.SIGKILL)
    wait_until(lambda: len(set(echo.workers()) - set(before)) == 1)
    assert set(before[1:]) < set(echo.workers())
    assert all(echo.is_healthy() for _ in range(20))


@needs_tenfour
def test_a_killed_main_process_leaves_no_worker(served: Served) -> None:
    """Even if they are stuck: they would go on to serve an old version, and hold the port."""
    workers = served.workers()
    assert len(workers) == 2
    os.kill(workers[0], signal.SIGSTOP)
    served.process.kill()
    wait_until(lambda: not any(map(is_running, workers)), seconds=5)


@needs_tenfour
def test_it_stops_in_time_while_clients_stall(served: Served, tenfour_server: Tenfour) -> None:
    requests = unfinished_requests(tenfour_server.token("agent", "coder"))
    connections: list[socket.socket] = []
    try:
        for request in requests.values():
            connections.append(served.connect())
            connections[-1].sendall(request)
        assert served.is_healthy()
        start = time.monotonic()
        served.process.terminate()
        assert served.process.wait(timeout=20) == 0
        assert time.monotonic() - start < 10
    finally:
        for connection in connections:
            connection.close()


@needs_tenfour
def test_it_finishes_the_requests_that_it_has(served: Served) -> None:
    with served.connect() as connection:
        connection.sendall(HEALTH.replace(b"/healthz", b"/v1/openapi.json"))
        connection.recv(1, socket.MSG_PEEK) and served.process.terminate()
        assert read_all(connection).startswith(b"HTTP/1.1 200 ")
