"""Call `/mcp` as a client would, byte by byte."""

import json
from typing import Any

import httpx2

from tests.waiting import PATIENCE_S

VERSION = "2025-11-25"
MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"


class Mcp:
    """Calls the tools of one token over HTTP, with the headers of a legacy version."""

    def __init__(self, url: str, secret: str) -> None:
        self.http = httpx2.Client(base_url=url, timeout=PATIENCE_S)
        self.headers = {
            "Authorization": f"Bearer {secret}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }

    def post(self, body: Any, **headers: str | None) -> httpx2.Response:
        """Send a body; a header that is None is left out."""
        sent = self.headers | {name.replace("_", "-"): value for name, value in headers.items()}
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        kept = {name: value for name, value in sent.items() if value is not None}
        return self.http.post("/mcp", content=raw, headers=kept)

    def request(self, method: str, params: Any = None, **headers: str | None) -> httpx2.Response:
        headers = {"MCP_Protocol_Version": VERSION} | headers
        return self.post(message(method, params), **headers)

    def tools(self) -> list[dict[str, Any]]:
        return self.request("tools/list").json()["result"]["tools"]

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Return a tool's result."""
        response = self.request("tools/call", {"name": name, "arguments": arguments})
        assert response.status_code == 200, response.text
        result = response.json()["result"]
        # The agents' models see only one of the two.
        assert result["structuredContent"]["message"] in text_of(result)
        return result

    def done(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Return the structured result of a call that succeeds."""
        result = self.call(name, **arguments)
        assert not result["isError"], result
        return result["structuredContent"]

    def refused(self, name: str, **arguments: Any) -> str:
        """Return the text of a call that the model can correct."""
        result = self.call(name, **arguments)
        assert result["isError"], result
        return result["content"][0]["text"]


def message(method: str, params: Any = None, **more: Any) -> dict[str, Any]:
    body = {"jsonrpc": "2.0", "id": 1, "method": method}
    return body | ({"params": params} if params is not None else {}) | more


def envelope(**params: Any) -> dict[str, Any]:
    """Return the params of a modern request."""
    meta = {f"{META}protocolVersion": MODERN, f"{META}clientCapabilities": {}}
    return params | {"_meta": meta}


def text_of(result: dict[str, Any]) -> str:
    return result["content"][0]["text"]
