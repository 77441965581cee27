"""The web server's processes: what kills, stops, and replaces them."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from threading import Event, Thread
from urllib.parse import quote

import pytest

from config.local.commands import Command
from config.local.embedded import free_port
from config.local.listeners import open_listener
from config.web_server import KEEP_ALIVE_MS
from tests.config.test_stalled_clients import unfinished_requests
from tests.config.web_processes import (
    HEALTH,
    Served,
    ending,
    read_all,
    run_server,
    start_web_server,
)
from tests.processes import is_running, stop_process
from tests.serving import Tenfour, database_of_tests
from tests.waiting import PATIENCE_S, wait_until

READY = HEALTH.replace(b"/healthz", b"/readyz")
ECHO = "tests.config.environ_echo:application"
PORTS_TRIED = 5  # another test may take a port before the server does

needs_tenfour = pytest.mark.django_db(transaction=True)


# Root without its capabilities has the rights of any user, and can read root's Python.
ORDINARY_USER = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="the tests run without root, so all servers do"
)
EACH_USER = pytest.mark.parametrize(
    "prefix", [pytest.param([], id="as is"), pytest.param(ORDINARY_USER, marks=needs_root)]
)


def has_started_or_ended(server: Served) -> bool:
    return server.is_healthy() or server.process.poll() is not None


@contextmanager
def run_echo(prefix: Sequence[str] = ()) -> Iterator[Served]:
    """Run a web server with an application that echoes, on a port that it binds itself."""
    for _ in range(PORTS_TRIED):
        port = free_port()
        bind = {"TENFOUR_BIND": f"127.0.0.1:{port}", "TENFOUR_WEB_WORKERS": "2"}
        more = {"TENFOUR_TOKEN": "not for requests"}
        with ending(start_web_server(ECHO, prefix=prefix, **bind, **more)) as process:
            running = Served(process, ("127.0.0.1", port))
            wait_until(partial(has_started_or_ended, running))
            if process.poll() is None:
                yield running
                return
    pytest.fail(f"{PORTS_TRIED} servers ended at once.")


@contextmanager
def start_echo(listener: socket.socket, prefix: Sequence[str] = ()) -> Iterator[Served]:
    """Run a web server with an application that echoes, on a socket that outlives it."""
    command = Command(
        [*prefix, sys.executable, "-m", "config.web_server", ECHO],
        env=os.environ | {"TENFOUR_BIND": f"fd://{listener.fileno()}", "TENFOUR_WEB_WORKERS": "2"},
        fds=(listener.fileno(),),
    )
    with ending(subprocess.Popen(command.argv, **command.options())) as process:
        yield Served(process, listener.getsockname()[:2])


@pytest.fixture(scope="module")
def echo() -> Iterator[Served]:
    with run_echo() as running:
        yield running


def test_the_environment_stays_out_of_requests(echo: Served) -> None:
    """granian's own wrapper puts it into every request, from where error reports would show it."""
    seen = json.loads(echo.ask(HEALTH).partition(b"\r\n\r\n")[2])
    assert seen["PATH_INFO"] == "/healthz"
    assert not set(seen) & {"PATH", "TENFOUR_TOKEN", "TENFOUR_SECRET_KEY", "DATABASE_URL"}
    assert "not for requests" not in seen.values()


def test_connections_are_kept(echo: Served) -> None:
    with closing(HTTPConnection(*echo.address, timeout=PATIENCE_S)) as connection:
        connection.connect()
        connection.auto_open = 0  # it would connect again without a word
        for _ in range(2):
            connection.request("POST", "/", b"Hello!")
            assert json.load(connection.getresponse())["body"] == "Hello!"


def test_a_second_instance_on_the_port_is_refused(echo: Served) -> None:
    """granian by itself would share the port with it, without a word."""
    bind = f"127.0.0.1:{echo.address[1]}"
    with ending(start_web_server(ECHO, TENFOUR_BIND=bind)) as second:
        said, _ = second.communicate(timeout=PATIENCE_S)
    assert second.returncode == 1
    assert said.decode() == (
        f"{bind} can't be used: Address already in use. Choose another TENFOUR_BIND.\n"
    )


def test_connections_that_come_at_once_are_spread_over_the_workers(echo: Served) -> None:
    """On one socket, the first worker that wakes up would take all of them."""
    slow, awake = echo.started_workers()
    with ExitStack() as stack:

        def send(count: int) -> list[socket.socket]:
            opened = [stack.enter_context(echo.connect()) for _ in range(count)]
            for connection in opened:
                connection.sendall(HEALTH)
            return opened

        stack.callback(os.kill, slow, signal.SIGCONT)
        stop_process(slow)
        counted = send(64)
        # By the response to a later request, the worker that is awake has accepted all before it.
        assert select.select(send(40), [], [], PATIENCE_S)[0]
        os.kill(slow, signal.SIGCONT)
        answers = [json.loads(read_all(each).partition(b"\r\n\r\n")[2]) for each in counted]
    served = Counter(answer["pid"] for answer in answers)
    assert served.keys() == {slow, awake}
    assert min(served.values()) >= 8  # fewer once in five billion runs


def test_a_killed_worker_is_replaced(echo: Served) -> None:
    before = echo.started_workers()
    os.kill(before[0], signal.SIGKILL)
    wait_until(lambda: len(set(echo.workers()) - set(before)) == 1)
    assert set(before[1:]) < set(echo.workers())
    assert all(echo.is_healthy() for _ in range(20))


@needs_tenfour
def test_an_idempotency_key_that_is_not_ascii_is_refused(tenfour_server: Tenfour) -> None:
    """granian hands it on as an empty one; if that meant none, a retry would act twice."""
    request = urllib.request.Request(
        f"{tenfour_server.url}/v1/instructions",
        data=json.dumps({"agent": "coder", "content": "Check the build"}).encode(),
        headers={
            "Authorization": f"Bearer {tenfour_server.token('orchestrator')}",
            "Content-Type": "application/json",
            "Idempotency-Key": "schlüssel",
        },
    )
    tenfour_server.token("agent", "coder")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=PATIENCE_S)
    assert json.load(refused.value)["errors"][0]["pointer"] == "/Idempotency-Key"


@pytest.fixture
def served(transactional_db: None) -> Iterator[Served]:
    """A server that a test may end."""
    with run_server() as served:
        yield served


@needs_tenfour
def test_a_killed_main_process_leaves_no_worker(served: Served) -> None:
    """Even if they are stuck: they would keep serving an old version, and hold the port."""
    workers = served.started_workers()
    stop_process(workers[0])
    served.process.kill()
    wait_until(lambda: not any(map(is_running, workers)))


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
        assert served.process.wait(timeout=PATIENCE_S) == 0
        # Long before it gives up on those that stall.
        assert time.monotonic() - start < KEEP_ALIVE_MS / 1000 - 15
    finally:
        for connection in connections:
            connection.close()


@needs_tenfour
def test_before_it_stops_it_serves_everything_and_says_so() -> None:
    """A load balancer sends nothing more, and clients connect elsewhere."""
    port = free_port()
    env = {"DATABASE_URL": database_of_tests(), "TENFOUR_BIND": f"127.0.0.1:{port}"}
    with ending(start_web_server(**env, TENFOUR_DRAIN_SECONDS="600")) as process:
        running = Served(process, ("127.0.0.1", port))
        wait_until(running.is_healthy)
        assert b'"status": "stopping"' not in running.ask(READY)
        process.terminate()
        wait_until(lambda: b'"status": "stopping"' in running.ask(READY))
        assert running.ask(READY).startswith(b"HTTP/1.1 503 ")
        with running.connect() as connection:  # which the client would keep
            connection.sendall(HEALTH.replace(b"Connection: close\r\n", b""))
            answer = read_all(connection)
        assert answer.startswith(b"HTTP/1.1 200 ") and b"connection: close" in answer.lower()


@EACH_USER
def test_no_request_fails_while_another_process_takes_over_the_socket(prefix: list[str]) -> None:
    """New connections wait at the socket; those that a process has accepted it serves."""
    failed: list[str] = []
    served: Counter[int] = Counter()
    stop = Event()

    def work() -> None:
        while not stop.is_set():
            try:
                served[json.loads(running.ask(HEALTH).partition(b"\r\n\r\n")[2])["pid"]] += 1
            except (OSError, ValueError) as error:
                failed.append(repr(error))

    with open_listener("127.0.0.1", 0) as listener, ExitStack() as stack:
        running = stack.enter_context(start_echo(listener, prefix))
        wait_until(running.is_healthy)
        threads = [Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(3):
                first = set(running.workers())
                wait_until(lambda first=first: bool(first & served.keys()))
                running.process.terminate()
                assert running.process.wait(timeout=PATIENCE_S) == 0
                running = stack.enter_context(start_echo(listener, prefix))
                wait_until(running.is_healthy)
            wait_until(lambda: bool(set(running.workers()) & served.keys()))
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    assert not failed, failed[:3]


@EACH_USER
def test_it_finishes_the_requests_that_it_has(tmp_path: Path, prefix: list[str]) -> None:
    """It also says nothing: a stop that failed would print a traceback (AGT-7)."""
    with run_echo(prefix) as running, running.connect() as connection:
        begun = tmp_path / "begun"
        connection.sendall(HEALTH.replace(b"/healthz", f"/slow?{quote(str(begun))}".encode()))
        wait_until(begun.exists)
        running.process.terminate()
        assert read_all(connection).startswith(b"HTTP/1.1 200 ")
        assert running.process.wait(timeout=PATIENCE_S) == 0
        assert running.process.stdout
        lines = running.process.stdout.read().decode().splitlines()
        assert [line for line in lines if "serving at" not in line] == []


@EACH_USER
def test_no_connection_is_reset_when_it_stops(prefix: list[str]) -> None:
    """Those that are accepted are served, and later ones are refused, so a proxy sends elsewhere."""
    failed: list[str] = []
    stop, begun = Event(), Event()

    def work() -> None:
        while not stop.is_set():
            try:
                connection = running.connect()
            except OSError:  # it was refused, or not accepted before the server ended
                continue
            try:
                with connection:
                    connection.sendall(HEALTH)
                    if not read_all(connection).startswith(b"HTTP/1.1 200 "):
                        failed.append("no response")
                    begun.set()
            except OSError as error:
                failed.append(repr(error))

    with run_echo(prefix) as running:
        threads = [Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            assert begun.wait(PATIENCE_S)
            running.process.terminate()
            assert running.process.wait(timeout=PATIENCE_S) == 0
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    assert not failed, failed[:3]
