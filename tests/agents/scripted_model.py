"""A model that does what a script tells it: lets the real agent CLIs run without any model.

A script is a generator function. It gets the first request of an agent's turn and yields steps;
each `yield` returns the request that the step led to, so the script decides from what it sees:

    def script(request):
        request = yield Tool("Bash", {"command": "make test"})
        if "passed" in request.newest:
            yield Say("Done.")

After its last step the model ends the turn. A subagent has a script of its own, found by a text in
its prompt: `model.play(script, when="SUBTASK")`. The model speaks the streaming forms of Anthropic's
`POST /v1/messages` and OpenAI's `POST /v1/responses`. Requests for a title or a summary get
"Done." and take no step. All requests are kept in `requests`.
"""

import json
import socket
import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from html import unescape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any


@dataclass(frozen=True)
class Say:
    """A text, which ends the agent's turn."""

    text: str = "Done."


@dataclass(frozen=True)
class Tool:
    """A call of one of the agent's tools; `namespace` is Codex's name for an MCP server.

    A text as the input is for Codex's tools of free form.
    """

    name: str
    input: dict[str, Any] | str = field(default_factory=dict)
    namespace: str = ""


@dataclass(frozen=True)
class ProviderError:
    """An error of the model's provider, such as 529, with the body that it sends."""

    status: int
    error: dict[str, Any] = field(
        default_factory=lambda: {"type": "overloaded_error", "message": "scripted"}
    )
    headers: dict[str, str] = field(default_factory=dict)


Step = Say | Tool | ProviderError


@dataclass(frozen=True)
class Request:
    """What an agent sent to the model: the whole conversation so far."""

    path: str
    body: dict[str, Any]

    @property
    def is_of_turn(self) -> bool:
        """Return whether the agent works on its turn, rather than on a title or a summary."""
        form = (self.body.get("text") or {}).get("format", {})
        return bool(self.body.get("tools")) and form.get("type") != "json_schema"

    @property
    def messages(self) -> list[dict[str, Any]]:
        found = self.body.get("messages") or self.body.get("input") or []
        return found if isinstance(found, list) else [{"role": "user", "content": found}]

    @property
    def text(self) -> str:
        """Return every text of the conversation, without the provider's own instructions."""
        return "\n".join(map(text_of, self.messages))

    @property
    def prompt(self) -> str:
        """Return what the conversation begins with, before the model's first step."""
        until = next((n for n, each in enumerate(self.messages) if is_of_model(each)), None)
        return "\n".join(map(text_of, self.messages[:until]))

    @property
    def newest(self) -> str:
        """Return what came after the model's last step; Codex escapes what a hook said."""
        return unescape("\n".join(map(text_of, self.messages[self.last_step() + 1 :])))

    def last_step(self) -> int:
        own = [n for n, message in enumerate(self.messages) if is_of_model(message)]
        return own[-1] if own else -1


def is_of_model(message: dict[str, Any]) -> bool:
    kind = message.get("type", "")
    return message.get("role") == "assistant" or kind in {"function_call", "custom_tool_call"}


def text_of(value: Any) -> str:
    """Return all texts inside a message, however deep."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(map(text_of, value))
    if isinstance(value, dict):
        return "\n".join(text_of(value[k]) for k in ("content", "text", "output") if k in value)
    return ""


Script = Callable[[Request], Generator[Step, Request, None]]


class Part:
    """A script that is being played."""

    def __init__(self, script: Script) -> None:
        self.script, self.lock = script, threading.Lock()
        self.playing: Generator[Step, Request, None] | None = None

    def step_for(self, request: Request) -> Step:
        """Return the next step; the end of the turn once there is none left."""
        with self.lock:
            try:
                if self.playing is None:
                    self.playing = self.script(request)
                    return next(self.playing)
                return self.playing.send(request)
            except StopIteration:
                return Say()


def steps(*each: Step) -> Script:
    """Return a script that takes these steps, whatever it sees."""

    def script(_: Request) -> Generator[Step, Request, None]:
        yield from (step for step in each)  # a generator, which takes what is sent

    return script


class ScriptedModel:
    """The model's server, on a socket that listens already; it plays one script after the other."""

    def __init__(self, listening: socket.socket) -> None:
        self.requests: list[Request] = []
        self.failures: list[Exception] = []  # of scripts: an assertion in one fails the test
        self.main, self.parts = Part(steps()), dict[str, Part]()
        self.server = ThreadingHTTPServer(
            listening.getsockname(), handler_of(self), bind_and_activate=False
        )
        self.server.socket.close()
        self.server.socket = listening
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
        if self.failures:
            raise self.failures[0]

    def play(self, script: Script, *, when: str = "") -> None:
        """Answer the next requests as this script says; with `when`, those that a text is in."""
        if when:
            self.parts[when] = Part(script)
        else:
            self.main = Part(script)

    def step_for(self, request: Request) -> Step:
        """Return the next step of the script that the request belongs to."""
        self.requests.append(request)
        if not request.is_of_turn:
            return Say()
        found = [part for text, part in self.parts.items() if text in request.prompt]
        try:
            return (found or [self.main])[0].step_for(request)
        except Exception as failure:
            self.failures.append(failure)
            return Say()

    def main_requests(self) -> list[Request]:
        """Return the requests that a script answered."""
        return [each for each in self.requests if each.is_of_turn]


def handler_of(model: ScriptedModel) -> type[BaseHTTPRequestHandler]:
    numbers = count(1)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def send(
            self,
            body: Any,
            kind: str = "application/json",
            status: int = 200,
            headers: dict[str, str] | None = None,
        ) -> None:
            raw = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(raw)))
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(raw)

        def do_HEAD(self) -> None:
            self.send(b"")

        def do_GET(self) -> None:
            self.send({"object": "list", "data": []})

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = self.path.split("?")[0]
            if path.endswith("/count_tokens"):
                return self.send({"input_tokens": 1})
            if not path.endswith(("/messages", "/responses")):
                return self.send({"error": {"message": f"no such address: {path}"}}, status=404)
            body = json.loads(raw)
            step, number = model.step_for(Request(path, body)), next(numbers)
            if isinstance(step, ProviderError):
                body = {"type": "error", "error": step.error}
                return self.send(body, status=step.status, headers=step.headers)
            if path.endswith("/responses"):
                events = responses_events(number, step)
            elif body.get("stream"):
                events = anthropic_events(body.get("model"), number, step)
            else:
                return self.send(anthropic_message(body.get("model"), number, step))
            self.send(b"".join(map(encoded_event, events)), "text/event-stream")

    return Handler


def encoded_event(event: dict[str, Any]) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


# ---- Anthropic's form

ONE_TOKEN = {"input_tokens": 1, "output_tokens": 1}


def anthropic_message(model: Any, number: int, step: Say | Tool) -> dict[str, Any]:
    return {
        "id": f"msg_{number:04}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [
            {"type": "text", "text": step.text}
            if isinstance(step, Say)
            else {
                "type": "tool_use",
                "id": f"toolu_{number:04}",
                "name": step.name,
                "input": step.input,
            }
        ],
        "stop_reason": "end_turn" if isinstance(step, Say) else "tool_use",
        "stop_sequence": None,
        "usage": ONE_TOKEN,
    }


def anthropic_events(model: Any, number: int, step: Say | Tool) -> Iterator[dict[str, Any]]:
    message = anthropic_message(model, number, step)
    block, reason = message["content"][0], message["stop_reason"]
    if isinstance(step, Say):
        empty, delta = block | {"text": ""}, {"type": "text_delta", "text": step.text}
    else:
        text = json.dumps(step.input)
        empty, delta = block | {"input": {}}, {"type": "input_json_delta", "partial_json": text}
    yield {"type": "message_start", "message": message | {"content": [], "stop_reason": None}}
    yield {"type": "content_block_start", "index": 0, "content_block": empty}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": None},
        "usage": {"output_tokens": 1},
    }
    yield {"type": "message_stop"}


# ---- OpenAI's form

USAGE = {
    "input_tokens": 1,
    "input_tokens_details": None,
    "output_tokens": 1,
    "output_tokens_details": None,
    "total_tokens": 2,
}


def responses_events(number: int, step: Say | Tool) -> Iterator[dict[str, Any]]:
    if isinstance(step, Say):
        item: dict[str, Any] = {
            "type": "message",
            "id": f"m_{number:04}",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": step.text, "annotations": []}],
        }
    elif isinstance(step.input, str):
        item = {
            "type": "custom_tool_call",
            "id": f"ctc_{number:04}",
            "call_id": f"call_{number:04}",
            "name": step.name,
            "input": step.input,
            "status": "completed",
        }
    else:
        item = {
            "type": "function_call",
            "id": f"fc_{number:04}",
            "call_id": f"call_{number:04}",
            "name": step.name,
            "arguments": json.dumps(step.input),
            "status": "completed",
        }
        if step.namespace:
            item["namespace"] = step.namespace
    answer = f"resp_{number:04}"
    yield {"type": "response.created", "response": {"id": answer}}
    yield {"type": "response.output_item.added", "output_index": 0, "item": item}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    yield {"type": "response.completed", "response": {"id": answer, "usage": USAGE}}
