"""A request with a wrong Host header is refused, and the log gets one line (SEC-17)."""

import os

import pytest

from tests.config.web_processes import run_server

pytestmark = pytest.mark.django_db(transaction=True)

HOSTS = ["a b", "tenfour/x", "[::1", "tenfour:port", "user@tenfour", "ten..four\\", "elsewhere.org"]


def test_a_wrong_host_is_one_line_in_the_log(capfd: pytest.CaptureFixture[str]) -> None:
    with run_server(workers=1, TENFOUR_HOSTS="tenfour.example.org") as served:
        capfd.readouterr()
        for number, host in enumerate(HOSTS):
            head = f"GET /sign-in/ HTTP/1.1\r\nHost: {host}\r\nX-Request-Id: number-{number}-\r\n"
            answer = served.ask(f"{head}Connection: close\r\n\r\n".encode())
            assert answer.startswith(b"HTTP/1.1 400 ") and b"<!doctype html>" in answer.lower()
        log = "".join(capfd.readouterr())
        served.process.terminate()
        served.process.wait()
    log += "".join(capfd.readouterr())
    assert "Traceback" not in log
    lines = log.splitlines()
    assert [sum(f"number-{number}-" in line for line in lines) for number in range(len(HOSTS))] == [
        1
    ] * len(HOSTS), log
    assert os.linesep.join(lines).count("HTTP_HOST") == len(HOSTS)
