"""Measure a person's answer while a stranger has sent half of 100 forms."""

import socket
import statistics
import time
import urllib.parse
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.client import HTTPConnection
from urllib.parse import urlsplit

import psycopg

from bench.figures import Figure, Say, Scale, at_most, ratios
from bench.http import run_web_server
from bench.pages import OPERATOR, collect_static_files
from bench.servers import Sandbox

HALF_SENT = 100
ANSWERS = 40
TIMEOUT_S = 30
FORM = "application/x-www-form-urlencoded"
FORM_TOKEN = "a" * 32
HALF = (
    f"POST /sign-in/ HTTP/1.1\r\nHost: x\r\nContent-Type: {FORM}\r\nContent-Length: 500\r\n\r\nuser"
)


@dataclass
class Person:
    """A browser that answers a question again and again."""

    url: str
    cookie: str
    path: str
    rounds: dict[str, list[float]] = field(default_factory=dict)

    def answer(self, number: int) -> float:
        """Comment on an escalation with a connection of its own; return the milliseconds."""
        where = urlsplit(self.url)
        headers = {"Cookie": self.cookie, "X-CSRFToken": FORM_TOKEN, "Content-Type": FORM}
        start = time.perf_counter()
        connection = HTTPConnection(where.hostname or "", where.port, timeout=TIMEOUT_S)
        body = urllib.parse.urlencode({"text": f"Comment {number}"})
        connection.request("POST", self.path, body, headers)
        status = connection.getresponse().status
        connection.close()
        if status != 302:
            raise RuntimeError(f"an answer was refused with {status}")
        return (time.perf_counter() - start) * 1000

    def measure(self, name: str) -> None:
        took = [self.answer(number) for number in range(ANSWERS)]
        self.rounds.setdefault(name, []).append(statistics.median(took))


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    url = sandbox.create_migrated("tenfour_slow_bodies")
    sandbox.seed(
        url,
        ("agents", {"count": 10}),
        ("tokens", {"count": 10}),
        ("dead_letters", {"count": 100}),
        ("escalations", {"open": 50}),
        ("operator", {"name": OPERATOR}),
    )
    collect_static_files(sandbox, url)
    (name, value), *_ = sandbox.seed(url, ("session_cookie", {"name": OPERATOR}))
    with psycopg.connect(url) as conn:
        row = conn.execute(
            "select id from retries_escalation where state = 'open' limit 1"
        ).fetchone()
    assert row
    path = f"/escalations/{row[0]}/remark/"
    with run_web_server(sandbox, "config.wsgi:application", url) as server:
        person = Person(server, f"{name}={value}; tenfour_csrf={FORM_TOKEN}", path)
        person.answer(0)
        for _ in range(scale.rounds):
            person.measure("alone")
            with ExitStack() as stack:
                for _ in range(HALF_SENT):
                    stack.enter_context(send_half(server))
                person.measure("beside half-sent forms")
            say(", ".join(f"{name} {took[-1]:.1f} ms" for name, took in person.rounds.items()))
    alone, beside = person.rounds["alone"], person.rounds["beside half-sent forms"]
    return [
        Figure(
            f"a person's answer beside {HALF_SENT} half-sent forms / without",
            ratios(beside, alone),
            target=at_most(1.5),
            detail={"alone_ms": alone, "beside_ms": beside},
        )
    ]


def send_half(url: str) -> socket.socket:
    where = urlsplit(url)
    connection = socket.create_connection((where.hostname, where.port), TIMEOUT_S)
    connection.sendall(HALF.encode())
    return connection
