"""Clients that stop in the middle of a request do not hold up others."""

import json
import socket
import time
from contextlib import ExitStack, suppress

import pytest

from config.requests.body_deadlines import BODY_S
from ledger import tokens
from ledger.models.token import TokenKind
from tests.config.web_processes import HEALTH, Served, read_all
from tests.config.web_processes import served as served
from tests.serving import Tenfour
from tests.waiting import wait_until

CLIENTS = 200
LIMIT_S = 0.5  # for /healthz; a stalled client that held it up would do so for a second or more
PROBES = 20

pytestmark = pytest.mark.django_db(transaction=True)


def post(path: str, *headers: str, length: int = 1000) -> bytes:
    """Return the start of a request, up to the middle of its body."""
    lines = [f"POST {path} HTTP/1.1", "Host: tenfour", f"Content-Length: {length}", *headers]
    return "\r\n".join([*lines, "", '{"agent": ']).encode()


def unfinished_requests(token: str) -> dict[str, bytes]:
    media = "Content-Type: application/json"
    bearer = f"Authorization: Bearer {token}"
    form = "Content-Type: application/x-www-form-urlencoded"
    return {
        "headers": b"GET / HTTP/1.1\r\nHost: tenf",
        "a body without a token": post("/v1/instructions", media),
        "a body with a wrong token": post("/v1/instructions", media, bearer[:-1] + "!"),
        "a body with an unknown token": post(
            "/v1/claims", media, f"Authorization: Bearer {tokens.new_secret(TokenKind.AGENT)}"
        ),
        "a sign-in": post("/sign-in/", form),
        "the body of a hot call": post("/v1/claims", media, bearer),
        "the body of a call": post("/v1/instructions", media, bearer),
        "a tool's body without a token": post("/mcp", media),
        "a large body": post("/v1/instructions", media, bearer, length=200_000),
    }


def is_prompt(served: Served) -> bool:
    """Return whether three of four requests of /healthz took no time: a busy machine delays few."""
    took = []
    for _ in range(PROBES):
        start = time.monotonic()
        assert served.is_healthy()
        took.append(time.monotonic() - start)
    return sorted(took)[PROBES * 3 // 4] < LIMIT_S


def test_stalled_clients_hold_up_nobody(served: Served, tenfour_server: Tenfour) -> None:
    """200 of each kind, also such that hold a valid token, while /healthz is probed."""
    token = tenfour_server.token("agent", "coder")

    def is_prompt_beside(request: bytes) -> bool:
        with ExitStack() as stack:
            for _ in range(CLIENTS):
                stack.enter_context(served.connect()).sendall(request)
            return is_prompt(served)

    for kind, request in unfinished_requests(token).items():
        wait_until(lambda request=request: is_prompt_beside(request), lambda kind=kind: kind)


def test_beyond_a_quarter_of_the_threads_bodies_are_refused(
    served: Served, tenfour_server: Tenfour
) -> None:
    """One token's stalled bodies take at most half of the places, so another token's are read."""
    stalled = unfinished_requests(tenfour_server.token("agent", "coder"))["the body of a hot call"]
    content = json.dumps({"agent": "coder", "content": "Check the build"}).encode()
    bearer = f"Authorization: Bearer {tenfour_server.token('orchestrator')}"
    head = post(
        "/v1/instructions",
        bearer,
        "Content-Type: application/json",
        "Connection: close",
        length=len(content),
    ).partition(b'{"agent')[0]
    with ExitStack() as stack:
        connections = [stack.enter_context(served.connect()) for _ in range(CLIENTS)]
        for connection in connections:
            connection.sendall(stalled)
        # While many tokens are checked at once, the next caller is asked to retry.
        wait_until(lambda: served.ask(head + content).startswith(b"HTTP/1.1 201 "))
        answers = dict.fromkeys(connections, b"")

        def read_answers() -> list[bytes]:
            for connection in connections:
                answers[connection] += read_available(connection)
            return [answer for answer in answers.values() if answer.endswith(b"}")]

        # Each of the two workers keeps half of 32 places for this token.
        wait_until(lambda: CLIENTS - len(read_answers()) <= 2 * 16)
        refused = read_answers()
    assert all(answer.startswith(b"HTTP/1.1 503 ") for answer in refused)
    assert all(b"retry-after: 1\r\n" in answer.lower() for answer in refused)
    assert all(b'"code": "temporarily_unavailable"' in answer for answer in refused)


def test_a_half_sent_body_is_gone_after_its_deadline(
    served: Served, tenfour_server: Tenfour
) -> None:
    """Each client gets a response and the end of the connection, and the server frees a thread."""
    requests = unfinished_requests(tenfour_server.token("agent", "coder"))
    del requests["headers"]
    bearer = f"Authorization: Bearer {tenfour_server.token('orchestrator')}"
    requests["a producer's large body"] = post("/v1/instructions", bearer, length=200_000)
    statuses = dict.fromkeys(requests, b"401") | {
        "a sign-in": b"408",
        "the body of a hot call": b"408",
        "the body of a call": b"403",  # before its body is read, like those without a token
        "a large body": b"403",
        "a producer's large body": b"408",
    }
    idle = served.connect()
    with ExitStack() as stack:
        stack.enter_context(idle)
        idle.sendall(HEALTH.replace(b"Connection: close\r\n", b""))
        # On a host that stands still for a second, the server may not find a connection to close,
        # and refuses callers that wait to be checked: those are tried again.
        wait_until(lambda: end_stalled(served, requests, statuses), lambda: ", ".join(requests))
        assert read_available(idle).startswith(b"HTTP/1.1 200 ")
        idle.setblocking(True)
        idle.sendall(HEALTH)  # a connection that only waits stays
        assert read_all(idle).startswith(b"HTTP/1.1 200 ")


def end_stalled(served: Served, requests: dict[str, bytes], statuses: dict[str, bytes]) -> bool:
    """Send the requests, and remove those that get their response and the connection's end."""
    with ExitStack() as stack:
        stalled = {kind: stack.enter_context(served.connect()) for kind in requests}
        for kind, connection in stalled.items():
            connection.settimeout(3 * BODY_S)
            connection.sendall(requests[kind])
        for kind, connection in stalled.items():
            with suppress(TimeoutError):
                head, _, body = read_all(connection).partition(b"\r\n\r\n")
                start = b"<!" if kind == "a sign-in" else b"{"
                if head.startswith(b"HTTP/1.1 " + statuses[kind]) and body.startswith(start):
                    del requests[kind]
    return not requests


def test_a_body_that_ends_too_early_takes_no_effect(
    served: Served, tenfour_server: Tenfour
) -> None:
    """granian ends the body without an error when the client is gone."""
    bearer = f"Authorization: Bearer {tenfour_server.token('orchestrator')}"
    text = post("/v1/plans?ref=short", bearer, "Content-Type: text/markdown").partition(b'{"agent')[
        0
    ]
    with served.connect() as connection:
        connection.sendall(text + b"# Plan: Short\n\n## Phase\n\n- [ ] First\n")
        connection.shutdown(socket.SHUT_WR)
        answer = read_all(connection)
    assert not answer or answer.startswith(b"HTTP/1.1 400 ")


def read_available(connection: socket.socket) -> bytes:
    connection.setblocking(False)
    try:
        return connection.recv(65_536)
    except OSError:  # there is nothing yet, or nothing more
        return b""
