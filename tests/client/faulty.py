"""A line to the server that breaks to order: a real HTTP proxy on a port of its own."""

import http.client
import json
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from tests.waiting import PATIENCE_S


@dataclass(frozen=True)
class Fault:
    """An answer in place of the server's; `after` lets the server carry the request out first.

    With `cut`, half of the server's own answer goes out before the connection breaks.
    """

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    after: bool = False
    cut: bool = False


def problem(status: int, code: str, **headers: str) -> Fault:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    body = json.dumps({"code": code, "title": code, "status": status, "retryable": True})
    return Fault(status, {"Content-Type": "application/problem+json"} | named, body.encode())


DROPPED = Fault()
CUT = Fault(after=True, cut=True)


@dataclass(frozen=True)
class Seen:
    """A request that came over the line."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    at: float = field(default_factory=time.monotonic)


class FaultyLine:
    """Hands requests on to `target`, but first uses up `faults`."""

    def __init__(self, target: str) -> None:
        self.faults: deque[Fault] = deque()
        self.seen: list[Seen] = []
        # the end of the paths that an older server does not know
        self.unknown = ""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self, target))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _handler(line: FaultyLine, target: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            line.seen.append(Seen(self.command, self.path, dict(self.headers.items()), body))
            fault = line.faults.popleft() if line.faults else None
            if line.unknown and self.path.endswith(line.unknown):
                fault = problem(404, "not_found")
            if fault is None or fault.after:
                answer = self.forward(body)
            if fault is None or fault.cut:
                self.answer(*answer, is_cut=fault is not None)
            elif fault is not DROPPED:
                self.answer(fault.status, fault.headers, fault.body)
            self.close_connection = True

        def forward(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
            connection = http.client.HTTPConnection(urlsplit(target).netloc, timeout=PATIENCE_S)
            try:
                connection.request(
                    self.command, self.path, body or None, dict(self.headers.items())
                )
                response = connection.getresponse()
                return response.status, dict(response.getheaders()), response.read()
            finally:
                connection.close()

        def answer(
            self, status: int, headers: dict[str, str], body: bytes, *, is_cut: bool = False
        ) -> None:
            self.send_response_only(status)
            for name, value in headers.items():
                if name.lower() not in {"content-length", "connection", "transfer-encoding"}:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if is_cut else body)

        def log_message(self, format: str, *args: object) -> None:
            pass

        do_GET = do_POST = do_PATCH = do_DELETE = handle_any

    return Handler
