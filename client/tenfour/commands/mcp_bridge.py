"""The command `tenfour mcp`: the MCP endpoint of the server, for agents that start a program.

It reads one JSON-RPC message a line from stdin, posts it to `/mcp` with this folder's token, and
writes the answer as one line to stdout, until stdin ends. With a command it runs that program
instead (see `relay`).
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

from tenfour import settings
from tenfour.commands.terminal import OK, say
from tenfour.http.core import JSON, Call, refusal, request_for
from tenfour.http.drivers import Driver
from tenfour.http.exchange import Answer, NoAnswer, Steps, Wait
from tenfour.http.problems import TenfourError, server_away
from tenfour.http.resend import wait_before_next

if TYPE_CHECKING:
    import argparse

PATH = "/mcp"
# No tool waits for anything.
TIMEOUT_S = 30.0
LONGEST_LINE = 16 * 1024 * 1024

PARSE_ERROR, INVALID_REQUEST, SERVER_ERROR = -32700, -32600, -32000
VERSION = "io.modelcontextprotocol/protocolVersion"
# Since 2026-07-28, a header repeats this parameter of these methods.
NAMED = {"tools/call": "name", "prompts/get": "name"}


def add_mcp_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "tenfour mcp [--wait SECONDS] [-- COMMAND [ARGUMENT …]]"
    parser.add_argument(
        "--wait",
        type=int,
        metavar="SECONDS",
        default=540,
        help="how long people may take to answer what COMMAND asks (540)",
    )
    parser.add_argument(
        "command",
        metavar="COMMAND",
        nargs="*",
        help="run this MCP server, or `codex app-server`, instead: what it asks people is asked in"
        " Tenfour first",
    )


def mcp(args: argparse.Namespace) -> int:
    """Answer the messages on stdin until it ends."""
    if args.command:
        from tenfour.commands.relay import relay

        return relay(args.command, settings.read(args.url), wait_s=args.wait)
    bridge = Bridge(settings.read(args.url))
    try:
        for line in read_lines(sys.stdin.buffer):
            answer = bridge.answer(line)
            if answer is not None:
                say(json.dumps(answer))
    finally:
        bridge.close()
    return OK


def read_lines(stream: BinaryIO) -> Iterator[bytes | None]:
    """Yield each line that is not empty; None for one that is too long."""
    while line := stream.readline(LONGEST_LINE):
        is_too_long = len(line) == LONGEST_LINE and not line.endswith(b"\n")
        rest = line
        while is_too_long and rest and not rest.endswith(b"\n"):
            rest = stream.readline(LONGEST_LINE)
        if is_too_long:
            yield None
        elif line.strip():
            yield line


class Bridge:
    """Sends messages to one server and turns every failure into a JSON-RPC error."""

    def __init__(self, given: settings.Settings) -> None:
        self.settings = given
        self.driver = Driver(given, TIMEOUT_S)
        # The version that `initialize` has agreed on.
        self.version = ""

    def close(self) -> None:
        self.driver.close()

    def answer(self, line: bytes | None) -> dict[str, Any] | None:
        """Return the answer to a line; None for a notification."""
        if line is None:
            text = f"The message is longer than {LONGEST_LINE // 1024 // 1024} MiB."
            return error_answer(None, INVALID_REQUEST, text)
        try:
            text = line.decode().strip()
            message = json.loads(text)
        except (ValueError, RecursionError) as error:
            return error_answer(None, PARSE_ERROR, f"The line is not JSON: {error}.")
        headers = headers_of(message, self.version)
        reply = self.driver.run(
            self.send(Call("POST", PATH, dict, body=text, media=JSON, headers=headers))
        )
        if isinstance(message, dict) and "method" in message and "id" not in message:
            return None
        answer = self.read(reply, message)
        self.note_version(message, answer)
        return answer

    def send(self, call: Call[Any]) -> Steps[Answer | NoAnswer]:
        """Post a message, again while the server is not reached; return the last reply."""
        request = request_for(call, self.settings)
        sent = 0
        while True:
            reply: Answer | NoAnswer = yield request
            sent += 1
            if isinstance(reply, Answer):
                return reply
            wait = wait_before_next(reply, sent=sent, rand=0.5)
            if wait is None:
                return reply
            yield Wait(wait)

    def read(self, reply: Answer | NoAnswer, message: Any) -> dict[str, Any]:
        """Return the JSON-RPC answer in a reply, or an error that says why there is none."""
        if isinstance(reply, Answer):
            answer = reply.problem()
            if answer.get("jsonrpc") == "2.0":
                # The server refuses a token before it reads the message, and so without its id;
                # a client would wait for ever for the answer to its own.
                id = answer.get("id")
                return {**answer, "id": id_of(message) if id is None else id}
            error = refusal(reply, url=self.settings.url)
        else:
            error = server_away(self.settings.url, reason=reply.reason, connected=reply.connected)
        return error_answer(id_of(message), SERVER_ERROR, sentence_of(error))

    def note_version(self, message: Any, answer: Mapping[str, Any]) -> None:
        if isinstance(message, dict) and message.get("method") == "initialize":
            result = answer.get("result")
            version = result.get("protocolVersion") if isinstance(result, dict) else None
            self.version = version if isinstance(version, str) else ""


def headers_of(message: Any, version: str) -> dict[str, str]:
    """Return the headers that go with a message over HTTP.

    Since 2026-07-28 they repeat what each message says; before, they name the version that
    `initialize` has agreed on.
    """
    body = object_in({"message": message}, "message")
    params = object_in(body, "params")
    named = object_in(params, "_meta").get(VERSION)
    if not isinstance(named, str):
        return {"MCP-Protocol-Version": version} if version else {}
    method = body.get("method")
    found = {
        "MCP-Protocol-Version": named,
        "Mcp-Method": method,
        "Mcp-Name": params.get(NAMED.get(str(method), "")),
    }
    return {name: encode_header(value) for name, value in found.items() if isinstance(value, str)}


def object_in(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the object under a name; an empty one where there is something else."""
    found = values.get(name)
    return found if isinstance(found, dict) else {}


def encode_header(value: str) -> str:
    """Return a value as a header may contain it: as Base64 where it isn't plain ASCII."""
    if value.isascii() and value.isprintable() and value == value.strip():
        return value
    raw = value.encode(errors="surrogatepass")
    return f"=?base64?{base64.b64encode(raw).decode()}?="


def id_of(message: Any) -> Any:
    id = message.get("id") if isinstance(message, dict) else None
    return id if isinstance(id, (str, int)) and not isinstance(id, bool) else None


def sentence_of(error: TenfourError) -> str:
    return f"{error.sentence.rstrip('.')}. {error.hint}".strip()


def error_answer(id: Any, code: int, text: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}}
