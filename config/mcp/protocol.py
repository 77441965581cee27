"""The Model Context Protocol over HTTP: messages, versions, headers, and errors (no Django).

Legacy versions open with `initialize`. Since 2026-07-28 each request names its version in
`params._meta` and repeats its method and its tool's name in headers.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MODERN = ("2026-07-28",)
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26")
SUPPORTED = MODERN + LEGACY

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
HEADER_MISMATCH = -32020
UNSUPPORTED_VERSION = -32022

META = "io.modelcontextprotocol/"
# The parameter of a method that Mcp-Name repeats.
NAMED = {"tools/call": "name", "prompts/get": "name"}
ENCODED = ("=?base64?", "?=")


class ProtocolError(Exception):
    """A message that can't be processed; the client's program has to change, not the model."""

    def __init__(self, code: int, message: str, *, status: int = 400, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status
        self.data = data


@dataclass(frozen=True, slots=True)
class Message:
    """A request, or a notification, which has no id and gets no response."""

    method: str
    params: dict[str, Any]
    id: str | int | None = None
    is_modern: bool = False

    @property
    def is_notification(self) -> bool:
        return self.id is None

    @property
    def meta(self) -> Mapping[str, Any]:
        meta = self.params.get("_meta")
        return meta if isinstance(meta, dict) else {}


@dataclass(frozen=True, slots=True)
class Headers:
    """The headers that a message must agree with; None for a missing one."""

    version: str | None = None
    method: str | None = None
    name: str | None = None


def read_message(body: Any, headers: Headers) -> Message:
    message = check_form(body)
    named = version_of(message.params)
    if message.method == "initialize":
        return message
    if headers.version in MODERN or named in MODERN or (named and headers.version is None):
        # The first revision with these rules defines none for notifications.
        if not message.is_notification:
            check_envelope(message, headers)
        return Message(message.method, message.params, message.id, is_modern=True)
    if headers.version is not None and headers.version not in LEGACY:
        raise unsupported(headers.version)
    return message


def check_form(body: Any) -> Message:
    """Return the message in a JSON value; raise ProtocolError if it isn't JSON-RPC 2.0."""
    if isinstance(body, list):
        raise ProtocolError(INVALID_REQUEST, "Batches are not supported. Send one message.")
    if not isinstance(body, dict) or body.get("jsonrpc") != "2.0":
        raise ProtocolError(INVALID_REQUEST, 'Send a JSON object with "jsonrpc": "2.0".')
    if "method" not in body and ("result" in body or "error" in body):
        raise ProtocolError(INVALID_REQUEST, "The server sent no request that this answers.")
    method, id, params = body.get("method"), body.get("id"), body.get("params", {})
    if not isinstance(method, str):
        raise ProtocolError(INVALID_REQUEST, "'method' must be a string.")
    if "id" in body and (isinstance(id, bool) or not isinstance(id, (str, int))):
        raise ProtocolError(INVALID_REQUEST, "'id' must be a string or an integer.")
    if not isinstance(params, dict):
        raise ProtocolError(INVALID_PARAMS, "'params' must be an object.")
    return Message(method, params, id)


def id_of(body: Any) -> str | int | None:
    """Return the id for the response to a body, or None if it has no usable one."""
    id = body.get("id") if isinstance(body, dict) else None
    return id if isinstance(id, (str, int)) and not isinstance(id, bool) else None


def version_of(params: Mapping[str, Any]) -> str | None:
    meta = params.get("_meta")
    version = meta.get(f"{META}protocolVersion") if isinstance(meta, dict) else None
    return version if isinstance(version, str) else None


def check_envelope(message: Message, headers: Headers) -> None:
    meta = message.params.get("_meta")
    needed = ("protocolVersion", "clientCapabilities")
    missing = [META + key for key in needed if not isinstance(meta, dict) or META + key not in meta]
    if missing:
        raise ProtocolError(INVALID_PARAMS, f"params._meta lacks {' and '.join(missing)}.")
    version = version_of(message.params)
    check_header("MCP-Protocol-Version", headers.version, version)
    check_header("Mcp-Method", headers.method, message.method)
    if key := NAMED.get(message.method):
        check_header("Mcp-Name", decode_header(headers.name), message.params.get(key))
    if version not in MODERN:
        raise unsupported(str(version))


def check_header(name: str, header: str | None, value: Any) -> None:
    if header is None:
        raise ProtocolError(HEADER_MISMATCH, f"The header {name} is missing or malformed.")
    if header != value:
        raise ProtocolError(
            HEADER_MISMATCH, f"The header {name} is '{header}', but the body has {value!r}."
        )


def decode_header(header: str | None) -> str | None:
    """Return a header's value, decoded if it is sent as Base64; None if it is malformed."""
    begin, end = ENCODED
    if header is None or not (header.startswith(begin) and header.endswith(end)):
        return header
    try:
        return base64.b64decode(header[len(begin) : -len(end)], validate=True).decode()
    except (binascii.Error, ValueError):
        return None


def unsupported(version: str) -> ProtocolError:
    return ProtocolError(
        UNSUPPORTED_VERSION,
        f"The protocol version '{version}' is not supported. Use one of: {', '.join(SUPPORTED)}.",
        data={"supported": list(SUPPORTED), "requested": version},
    )


def method_not_found(method: str) -> ProtocolError:
    text = f"There is no method '{method}' in this protocol version."
    return ProtocolError(METHOD_NOT_FOUND, text, status=404)


def negotiate(requested: Any) -> str:
    """Return the legacy version for a client that requests `requested` in `initialize`."""
    return requested if requested in LEGACY else LEGACY[0]
