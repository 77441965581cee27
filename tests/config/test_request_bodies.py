"""A body that ends early, or whose length is unknown, is refused, and nothing of it is stored."""

import json
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.test import Client as Browser

from ledger.models import Attempt, Task
from tests.config.web_processes import Served, read_all
from tests.config.web_processes import served as served
from tests.ledger.api.openapi import openapi_schema
from tests.nginx import run_nginx
from tests.serving import Tenfour
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

PLAN = "# Plan: Deploy\n\n## Phase\n\n- [ ] First\n- [ ] Second\n"
TEXTS = {
    "text/markdown": PLAN,
    "application/yaml": "plan: Deploy\nphases:\n- name: Phase\n  tasks:\n  - title: First\n",
    "application/xml": "<plan name='Deploy'/>",
    "application/x-ndjson": '{"type": "user", "message": {"role": "user", "content": "Hello"}}\n',
}
ESTABLISHED, CLOSE_WAIT = "01", "08"  # in /proc/net/tcp
# Send the start of each request that stands in the file, say so, and wait to be killed.
SENDER = """
import json, socket, sys, time
requests = json.load(open(sys.argv[3]))
held = []
for text in requests:
    connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))
    connection.sendall(text.encode())
    held.append(connection)
print("sent", flush=True)
time.sleep(3600)
"""


@dataclass(frozen=True)
class Operation:
    """A request with a body; `content` is the part of it that is sent."""

    name: str
    path: str
    media: str
    content: str
    credentials: tuple[str, ...]  # headers, of which at least one is accepted

    def start(self, credential: str, framing: str) -> str:
        method, size = self.name.split()[0], len(self.content.encode())
        if framing == "length":  # what is missing is white space, so the start is a whole document
            header, body = f"Content-Length: {size + 500}", self.content
        else:
            header, body = "Transfer-Encoding: chunked", f"{size:x}\r\n{self.content}\r\n"
        lines = [f"{method} {self.path} HTTP/1.1", "Host: tenfour", header, credential]
        more = [f"Content-Type: {self.media}", "Connection: close"]
        return "\r\n".join([*lines, *more, "", body])


def list_operations(server: Tenfour) -> Iterator[Operation]:
    """Yield every operation of the API that takes a body, MCP, and forms of pages."""
    kinds = ("agent", "orchestrator", "operator")
    tokens = [server.token(kind, "coder" if kind == "agent" else None) for kind in kinds]
    bearers = tuple(f"Authorization: Bearer {token}" for token in tokens)
    attempt = Attempt.objects.get()
    ids = {"attempts": attempt.pk, "tasks": attempt.task_id}
    for path, methods in openapi_schema()["paths"].items():
        for method, operation in methods.items():
            for media, schema in operation.get("requestBody", {}).get("content", {}).items():
                id = ids.get(path.split("/")[2], uuid.uuid4())
                concrete = path.replace("{id}", str(id)).replace("{code}", "0")
                concrete = concrete.replace("{order}", "1")
                if path == "/v1/plans":
                    concrete += "?agent=coder"
                text = TEXTS.get(media) or json.dumps(example_of(schema))
                yield Operation(f"{method.upper()} {path} {media}", concrete, media, text, bearers)
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    yield Operation("POST mcp", "/mcp", "application/json", json.dumps(call), bearers)
    browser = Browser()
    browser.force_login(User.objects.create_superuser("mara"))
    cookie = "; ".join(f"{name}={each.value}" for name, each in browser.cookies.items())
    form = "application/x-www-form-urlencoded"
    for path in ("/sign-in/", "/settings/", f"/tasks/{attempt.task_id}/abort/", "/tokens/new/"):
        yield Operation(f"POST {path}", path, form, "confirmed=yes", (f"Cookie: {cookie}",))
    yield Operation("POST as a stranger", "/sign-in/", form, "username=mara", ("X-None: 1",))


def example_of(schema: dict[str, Any]) -> Any:
    return schema.get("example") or schema.get("schema", {}).get("example") or {}


def count_rows() -> dict[str, int]:
    """Return how many rows each table has, and the states of the attempt and its task."""
    models = [each for each in apps.get_models() if each._meta.managed]
    counts = {each._meta.db_table: each._default_manager.count() for each in models}
    finished = Attempt.objects.exclude(ended_at=None).count()
    running = Task.objects.filter(state="running").count()
    return counts | {"finished attempts": finished, "running tasks": running}


@pytest.fixture
def operations(tenfour_server: Tenfour) -> list[Operation]:
    with (
        tenfour_server.client("agent", "coder") as agent,
        tenfour_server.client("orchestrator") as producer,
    ):
        producer.tasks.enqueue("coder", "code")
        agent.tasks.claim()
    return list(list_operations(tenfour_server))


def test_a_body_that_ends_early_is_refused(served: Served, operations: list[Operation]) -> None:
    before, wrong = count_rows(), {}
    for operation in operations:
        statuses = {
            status_of(served, operation.start(each, "length")) for each in operation.credentials
        }
        if statuses == {b"403"} or not statuses <= {b"400", b"403", b""}:
            wrong[operation.name] = statuses
    assert not wrong
    assert count_rows() == before


def test_a_body_without_a_length_is_refused(served: Served, operations: list[Operation]) -> None:
    """Whether it is whole or not: the web server can't tell."""
    before, wrong = count_rows(), {}
    for operation in operations:
        for end in ("0\r\n\r\n", "", "zz\r\n", "fffffffffffffffff\r\n"):
            request = operation.start(operation.credentials[0], "chunked") + end
            answer = served.ask(request.encode())
            if not answer.startswith(b"HTTP/1.1 411 "):
                wrong[operation.name, end] = answer[:100]
    assert not wrong
    assert count_rows() == before


def test_a_client_that_is_killed_in_a_body_stores_nothing(
    served: Served, operations: list[Operation], tmp_path: Path
) -> None:
    starts = [
        operation.start(each, framing)
        for operation in operations
        for framing in ("length", "chunked")
        for each in operation.credentials
    ]
    before = count_rows()
    for at in range(0, len(starts), 16):  # as many as are awaited
        (tmp_path / "requests").write_text(json.dumps(starts[at : at + 16]))
        argv = [sys.executable, "-c", SENDER, *map(str, served.address), tmp_path / "requests"]
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as sender:
            assert sender.stdout and sender.stdout.readline() == b"sent\n"
            wait_until(lambda: count_connections(served) > 0)
            sender.send_signal(signal.SIGKILL)
        wait_until(lambda: count_connections(served) == 0)
    assert count_rows() == before


def count_connections(served: Served) -> int:
    """Return how many connections to the server it has not closed."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    port = f":{served.address[1]:04X}"
    return sum(row[1].endswith(port) and row[3] in (ESTABLISHED, CLOSE_WAIT) for row in rows)


def status_of(served: Served, request: str) -> bytes:
    """Send the start of a request, end the connection, and return the status of the response."""
    with served.connect() as connection:
        connection.sendall(request.encode())
        connection.shutdown(socket.SHUT_WR)
        answer = read_all(connection)
    return answer.split()[1] if answer else b""


@pytest.mark.parametrize("order", ["Content-Length first", "Transfer-Encoding first"])
def test_a_body_with_two_lengths_is_refused(
    served: Served, tenfour_server: Tenfour, order: str
) -> None:
    """Two programs could see its end at different places, and the rest as a request (SEC-18)."""
    lengths = ["Content-Length: 3", "Transfer-Encoding: chunked"]
    if order != "Content-Length first":
        lengths.reverse()
    bearer = f"Authorization: Bearer {tenfour_server.token('orchestrator')}"
    head = ["POST /v1/instructions HTTP/1.1", "Host: tenfour", bearer, *lengths]
    smuggled = "2\r\n{}\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: tenfour\r\n\r\n"
    answer = served.ask(("\r\n".join([*head, "", ""]) + smuggled).encode())
    assert answer.startswith(b"HTTP/1.1 411 ") and answer.count(b"HTTP/1.1 ") == 1
    assert b'"code": "length_required"' in answer


def test_the_hint_says_to_send_a_length(served: Served, tenfour_server: Tenfour) -> None:
    head = "POST /v1/plans HTTP/1.1\r\nHost: tenfour\r\nAuthorization: Bearer x\r\n"
    framing = "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n"
    problem = json.loads(served.ask((head + framing).encode()).partition(b"\r\n\r\n")[2])
    assert problem["code"] == "length_required" and problem["retryable"] is False
    assert "Send Content-Length" in problem["hint"]


def test_a_buffering_proxy_sends_a_length(
    served: Served, tenfour_server: Tenfour, tmp_path: Path
) -> None:
    """Behind nginx, chunks arrive whole, or not at all."""
    tenfour_server.token("agent", "coder")
    bearer = f"Authorization: Bearer {tenfour_server.token('orchestrator')}"
    head = [
        "POST /v1/plans?agent=coder HTTP/1.1",
        "Host: tenfour",
        bearer,
        "Content-Type: text/markdown",
    ]
    chunk = f"{len(PLAN):x}\r\n{PLAN}\r\n"
    before = count_rows()
    with run_nginx(tmp_path, served.address[1]) as port:
        proxy = Served(served.process, ("127.0.0.1", port))
        text = "\r\n".join([*head, "Transfer-Encoding: chunked", "Connection: close", "", chunk])
        assert status_of(proxy, text) in {b"", b"400"}
        assert count_rows() == before
        assert proxy.ask((text + "0\r\n\r\n").encode()).startswith(b"HTTP/1.1 201 ")
