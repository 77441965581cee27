"""What `/mcp` accepts and refuses, message by message (api.md 9.1)."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from config.mcp.protocol import SUPPORTED
from tests.config.mcp.calls import META, MODERN, Mcp, envelope, message
from tests.serving import Tenfour


def error_of(response: Any, status: int, code: int) -> dict[str, Any]:
    """Return the error of a refused message."""
    assert response.status_code == status, response.text
    assert response.headers["Content-Type"] == "application/json"
    body = response.json()
    assert body["jsonrpc"] == "2.0" and "result" not in body
    assert body["error"]["code"] == code, body
    return body["error"]


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25"])
def test_a_legacy_client_opens_with_initialize(coder: Mcp, version: str) -> None:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "x"}}
    response = coder.post(message("initialize", params))
    result = response.json()["result"]
    assert result["protocolVersion"] == version
    assert result["capabilities"] == {"tools": {}, "prompts": {}}
    assert result["serverInfo"]["name"] == "tenfour"
    assert "claim_task" in result["instructions"]
    assert "mcp-session-id" not in response.headers
    notified = coder.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert (notified.status_code, notified.content) == (202, b"")
    ping = coder.request("ping", MCP_Protocol_Version=version)
    assert ping.json() == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_an_unknown_version_in_initialize_gets_the_newest_legacy_one(coder: Mcp) -> None:
    for version in ("1999-01-01", MODERN, None, 7):
        result = coder.post(message("initialize", {"protocolVersion": version})).json()["result"]
        assert result["protocolVersion"] == "2025-11-25"


def test_messages_that_are_not_valid_are_explained(coder: Mcp) -> None:
    post = coder.post
    assert "not valid JSON" in error_of(post(b"{nonsense"), 400, -32700)["message"]
    assert "not valid JSON" in error_of(post(b'{"a":1,"a":2}'), 400, -32700)["message"]
    assert "not valid JSON" in error_of(post(b"\xff\xfe\xfd"), 400, -32700)["message"]
    deep = b"[" * 100_000
    assert "nested" in error_of(post(deep), 400, -32700)["message"]
    assert "Batches" in error_of(post([message("ping")]), 400, -32600)["message"]
    for body in (7, None, "ping", {}, {"jsonrpc": "1.0", "id": 1, "method": "ping"}):
        error_of(post(body), 400, -32600)
    assert "method" in error_of(post({"jsonrpc": "2.0", "id": 1}), 400, -32600)["message"]
    for id in (None, True, 1.5, {}, []):
        assert "'id'" in error_of(post(message("ping", id=id)), 400, -32600)["message"]
    error_of(post(message("ping") | {"method": 7}), 400, -32600)
    error_of(post(message("ping", [1])), 400, -32602)
    answered = {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert "no request" in error_of(post(answered), 400, -32600)["message"]
    for id in ("text", 0, -(10**20), "half \ud800 of a pair", "\0"):
        echoed = post(message("ping", id=id))
        assert (echoed.status_code, echoed.json()["id"]) == (200, id)


def test_an_unknown_method_is_not_the_end_of_a_session(coder: Mcp) -> None:
    for method in ("resources/list", "tasks/get", "server/discover", ""):
        assert "no method" in error_of(coder.request(method), 200, -32601)["message"]


def test_headers_that_are_wrong_or_missing_are_explained(coder: Mcp) -> None:
    ping = message("ping")
    assert (
        "text/plain"
        in error_of(coder.post(ping, Content_Type="text/plain"), 415, -32600)["message"]
    )
    assert (
        "Accept" in error_of(coder.post(ping, Accept="text/event-stream"), 406, -32600)["message"]
    )
    assert coder.post(ping, Accept="*/*").status_code == 200
    unknown = error_of(coder.post(ping, MCP_Protocol_Version="1900-01-01"), 400, -32022)
    assert unknown["data"] == {"supported": list(SUPPORTED), "requested": "1900-01-01"}
    notice = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    error_of(coder.post(notice, MCP_Protocol_Version="1900-01-01"), 400, -32022)


def test_only_post_is_answered(coder: Mcp) -> None:
    """Agents' clients open with GET and close with DELETE; 405 tells them that neither exists."""
    for method in ("GET", "DELETE", "PUT", "HEAD"):
        response = coder.http.request(method, "/mcp", headers=coder.headers)
        assert response.status_code == 405
        assert response.headers["Allow"] == "POST"


def test_a_page_elsewhere_can_not_call(coder: Mcp, tenfour_server: Tenfour) -> None:
    own = tenfour_server.url
    assert coder.post(message("ping"), Origin=own).status_code == 200
    rebound = {"Origin": "http://evil.example", "Host": "evil.example"}
    for headers in (rebound, {"Origin": "null"}, {"Origin": f"{own}0"}, {"Origin": ""}):
        assert "origin" in error_of(coder.post(message("ping"), **headers), 403, -32600)["message"]
    refused = coder.http.get("/mcp", headers={"Origin": "http://evil.example"})
    assert refused.status_code == 403


def test_a_token_is_needed_as_everywhere(
    mcp: Callable[..., Mcp], coder: Mcp, tenfour_server: Tenfour
) -> None:
    ping, listed = message("ping"), message("tools/list")
    missing = coder.post(ping, Authorization=None)
    assert "bearer token" in error_of(missing, 401, -32600)["message"]
    assert missing.headers["WWW-Authenticate"] == "Bearer"  # and no resource_metadata: no OAuth
    for secret in ("Bearer nonsense", "Basic abc"):
        error_of(coder.post(listed, Authorization=secret), 401, -32600)
    gone = mcp("agent", "gone")
    revoked = tenfour_server.project.token_set.filter(agent__name="gone")
    revoked.update(revoked_at="2026-01-01T00:00Z")
    called = {"name": "claim_task", "arguments": {}}
    for body in (ping, listed, message("tools/call", called)):
        error = error_of(gone.post(body), 401, -32600)
        assert "revoked" in error["message"] and error["data"]["code"] == "token_revoked"
    notice = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    error_of(gone.post(notice), 401, -32600)
    # Only a token counts, so no page can forge a call.
    browser = Client(enforce_csrf_checks=True)
    assert browser.post("/mcp", ping, "application/json").status_code == 401
    while (limited := coder.post(ping, Authorization=None)).status_code == 401:
        pass
    assert "no bearer token" in error_of(limited, 429, -32600)["message"]
    assert limited.headers["Retry-After"] == "60"
    assert coder.post(ping).status_code == 200  # valid tokens are never limited
    for path in (
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-authorization-server",
    ):
        assert Client().get(path).status_code == 404


def test_a_body_that_is_too_large_is_refused(coder: Mcp) -> None:
    large = message("tools/call", {"name": "get_task", "arguments": {"id": "x" * 4_194_304}})
    # In this process: a sender that is still writing to a socket may not see the response.
    refused = Client().post("/mcp", large, "application/json", headers=coder.headers)
    assert refused.status_code == 413
    assert "at most 4194304" in refused.json()["error"]["message"]
    # below the limit of a report, above the limit of other calls
    middle = {"name": "get_task", "arguments": {"id": "x" * 300_000}}
    result = coder.request("tools/call", middle).json()["result"]
    assert result["isError"] and result["structuredContent"]["code"] == "payload_too_large"


# ---- 2026-07-28


def modern(mcp: Mcp, method: str, params: Any, **headers: str | None) -> Any:
    name = params.get("name")
    right = {"MCP_Protocol_Version": MODERN, "Mcp_Method": method}
    named = {"Mcp_Name": name} if name else {}
    return mcp.post(message(method, params), **(right | named | headers))


def test_a_modern_client_discovers_the_server(coder: Mcp) -> None:
    result = modern(coder, "server/discover", envelope()).json()["result"]
    assert result["supportedVersions"] == list(SUPPORTED)
    assert result["supportedVersions"][0] == MODERN
    assert result["capabilities"] == {"tools": {}, "prompts": {}}
    assert (result["resultType"], result["cacheScope"]) == ("complete", "private")
    assert result["ttlMs"] > 0
    assert result["_meta"][f"{META}serverInfo"]["name"] == "tenfour"
    listed = modern(coder, "tools/list", envelope()).json()["result"]
    assert (listed["resultType"], listed["cacheScope"]) == ("complete", "private")
    assert listed["tools"] == coder.tools()
    called = modern(coder, "tools/call", envelope(name="list_tasks")).json()["result"]
    assert called["resultType"] == "complete" and "ttlMs" not in called


def test_a_modern_request_and_its_headers_must_agree(coder: Mcp) -> None:
    call = envelope(name="list_tasks", arguments={})
    right = modern(coder, "tools/call", call)
    assert right.status_code == 200
    wrong: list[dict[str, str | None]] = [
        {"MCP_Protocol_Version": None},
        {"MCP_Protocol_Version": "2025-11-25"},
        {"Mcp_Method": None},
        {"Mcp_Method": "tools/list"},
        {"Mcp_Name": None},
        {"Mcp_Name": "claim_task"},
        {"Mcp_Name": "=?base64?!!?="},
    ]
    for headers in wrong:
        (name,) = headers
        error = error_of(modern(coder, "tools/call", call, **headers), 400, -32020)
        assert name.replace("_", "-").lower() in error["message"].lower()
    encoded = base64.b64encode(b"list_tasks").decode()
    assert modern(coder, "tools/call", call, Mcp_Name=f"=?base64?{encoded}?=").status_code == 200


def test_a_modern_request_names_its_version_and_capabilities(coder: Mcp) -> None:
    missing = modern(coder, "tools/list", {})
    assert f"{META}protocolVersion" in error_of(missing, 400, -32602)["message"]
    unknown = envelope()
    unknown["_meta"][f"{META}protocolVersion"] = "2030-01-01"
    response = modern(coder, "tools/list", unknown, MCP_Protocol_Version="2030-01-01")
    assert error_of(response, 400, -32022)["data"]["requested"] == "2030-01-01"
    for method in ("ping", "resources/list", "subscriptions/listen"):
        error_of(modern(coder, method, envelope()), 404, -32601)


def test_the_loop_is_a_prompt(coder: Mcp) -> None:
    (prompt,) = coder.request("prompts/list").json()["result"]["prompts"]
    got = coder.request("prompts/get", {"name": prompt["name"]}).json()["result"]
    assert "report_result" in got["messages"][0]["content"]["text"]
    assert "'work'" in error_of(coder.request("prompts/get", {"name": "x"}), 200, -32602)["message"]


def test_calls_that_name_no_tool_are_explained(coder: Mcp) -> None:
    for name in ("resolve_escalation", "", None, 7, {}, "claim-task", "x" * 5000):
        response = coder.request("tools/call", {"name": name, "arguments": {}})
        assert "no tool" in error_of(response, 200, -32602)["message"]
    listed = coder.request("tools/call", {"name": "list_tasks", "arguments": [1]})
    assert "'arguments'" in error_of(listed, 200, -32602)["message"]
    unknown = modern(coder, "tools/call", envelope(name="nothing"))
    error_of(unknown, 400, -32602)
    null = json.dumps(message("tools/call", {"name": "list_tasks", "arguments": {"q": "a\0"}}))
    assert "U+0000" in error_of(coder.post(null.encode()), 200, -32602)["message"]
