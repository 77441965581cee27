"""A request with a wrong Host header is refused, and the log gets one line (SEC-17)."""

import os

import pytest

from config.local.listeners import open_listener
from tests.config.web_processes import Served, ending
from tests.serving import collect_static_files, serve
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

HOSTS = ["a b", "tenfour/x", "[::1", "tenfour:port", "user@tenfour", "ten..four\\", "elsewhere.org"]


def test_a_wrong_host_is_one_line_in_the_log(capfd: pytest.CaptureFixture[str]) -> None:
    collect_static_files()
    with (
        open_listener("127.0.0.1", 0) as listener,
        ending(serve(listener.fileno(), TENFOUR_HOSTS="tenfour.example.org")) as process,
    ):
        served = Served(process, listener.getsockname()[:2])
        wait_until(served.is_healthy)
        capfd.readouterr()
        for number, host in enumerate(HOSTS):
            head = f"GET /sign-in/ HTTP/1.1\r\nHost: {host}\r\nX-Request-Id: number-{number}-\r\n"
            answer = served.ask(f"{head}Connection: close\r\n\r\n".encode())
            assert answer.startswith(b"HTTP/1.1 400 ") and b"<!doctype html>" in answer.lower()
        log = "".join(capfd.readouterr())
        process.terminate()
        process.wait()
    log += "".join(capfd.readouterr())
    assert "Traceback" not in log
    lines = log.splitlines()
    assert [sum(f"number-{number}-" in line for line in lines) for number in range(len(HOSTS))] == [
        1
    ] * len(HOSTS), log
    assert os.linesep.join(lines).count("HTTP_HOST") == len(HOSTS)
