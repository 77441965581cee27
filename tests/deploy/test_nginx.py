"""nginx in front of two web processes, one of which was removed, as an update with Compose does."""

import socket
import subprocess
import threading
import urllib.request
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from config.local.embedded import free_port
from tests.programs import require_program
from tests.serving import ROOT
from tests.waiting import PATIENCE_S, wait_until


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
    program = require_program("nginx")
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), Answering) as web,
        socket.create_server(("127.0.0.1", 0), backlog=0) as gone,
        socket.create_connection(gone.getsockname()),  # no room is left: it does not answer
    ):
        threading.Thread(target=web.serve_forever, daemon=True).start()
        port = free_port()
        text = (ROOT / "deploy" / "nginx" / "tenfour.conf").read_text()
        [line] = [each for each in text.splitlines() if each.strip().startswith("server web:8000")]
        servers = [
            line.replace("web:8000", f"127.0.0.1:{each}")
            for each in (gone.getsockname()[1], web.server_port)
        ]
        text = text.replace(line, "\n".join(servers)).replace("listen 8000", f"listen {port}")
        (tmp_path / "tenfour.conf").write_text(text)
        (tmp_path / "nginx.conf").write_text(
            f'daemon off; master_process off; pid "{tmp_path}/pid"; error_log "{tmp_path}/log";\n'
            f'events {{}} http {{ access_log off; include "{tmp_path}/tenfour.conf"; }}\n'
        )
        nginx = subprocess.Popen(
            [program, "-e", f"{tmp_path}/log", "-p", tmp_path, "-c", tmp_path / "nginx.conf"]
        )
        try:

            def is_up() -> bool:
                with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    return True
                return False

            wait_until(is_up, lambda: (tmp_path / "log").read_text())
            assert [post(port) for _ in range(4)] == [201] * 4
            assert "while connecting to upstream" in (tmp_path / "log").read_text()
        finally:
            nginx.terminate()
            nginx.wait(PATIENCE_S)
        web.shutdown()
