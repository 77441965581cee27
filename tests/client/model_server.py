"""A server that speaks OpenAI's chat completions and answers to order: real HTTP on a port."""

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from tests.waiting import PATIENCE_S


@dataclass(frozen=True)
class Raw:
    """An answer that is not as the protocol has it; None drops the connection.

    With a pause, it goes out byte by byte, that many seconds apart.
    """

    body: bytes | None = b""
    status: int = 200
    pause_s: float = 0


@dataclass(frozen=True)
class Asked:
    """A request that came to the server."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def question(self) -> Any:
        """The user's message, which is JSON."""
        return json.loads(self.body["messages"][-1]["content"])


# The content of a message, or a function of the request that returns it.
Reply = str | dict[str, Any] | list[Any] | None | Raw | Callable[[Asked], Any]


class ModelServer:
    """Answers each request with the next of `replies`, and the last one again and again."""

    def __init__(self) -> None:
        self.replies: deque[Reply] = deque()
        self.asked: list[Asked] = []
        # A reply is held back until it is set.
        self.released = threading.Event()
        self.released.set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def next_reply(self, asked: Asked) -> Any:
        reply = self.replies.popleft() if len(self.replies) > 1 else self.replies[0]
        return reply(asked) if callable(reply) else reply

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _handler(server: ModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked = Asked(self.path, dict(self.headers.items()), body)
            server.asked.append(asked)
            reply = server.next_reply(asked)
            server.released.wait(PATIENCE_S)
            raw = reply if isinstance(reply, Raw) else Raw(completion(asked, reply))
            if raw.body is None:
                self.close_connection = True
                return
            self.send_response_only(raw.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw.body)))
            self.end_headers()
            with suppress(OSError):  # the client has enough of it
                if not raw.pause_s:
                    self.wfile.write(raw.body)
                    return
                for place in range(len(raw.body)):
                    self.wfile.write(raw.body[place : place + 1])
                    time.sleep(raw.pause_s)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


def completion(asked: Asked, reply: Any) -> bytes:
    content = json.dumps(reply) if isinstance(reply, dict) else reply
    message = {"role": "assistant", "content": content}
    return json.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1_800_000_000,
            "model": asked.body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
    ).encode()
