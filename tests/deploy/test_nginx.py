"""nginx in front of two web processes, one of which was removed, as an update with Compose does."""

import socket
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.nginx import run_nginx
from tests.waiting import PATIENCE_S


class Answering(BaseHTTPRequestHandler):
    """A web process that takes every request."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def post(port: int) -> int:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/tasks", b"{}", method="POST")
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
        return int(response.status)


def test_a_post_goes_on_to_the_next_process_where_an_address_no_longer_answers(
    tmp_path: Path,
) -> None:
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), Answering) as web,
        socket.create_server(("127.0.0.1", 0), backlog=0) as gone,
        socket.create_connection(gone.getsockname()),  # no room is left: it does not answer
    ):
        threading.Thread(target=web.serve_forever, daemon=True).start()
        with run_nginx(tmp_path, gone.getsockname()[1], web.server_port) as port:
            assert [post(port) for _ in range(4)] == [201] * 4
            assert "while connecting to upstream" in (tmp_path / "log").read_text()
        web.shutdown()
