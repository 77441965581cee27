"""`tenfour mcp`: the official client over stdin and stdout, bad input, and a server that is away."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client import session
from tenfour import Client as Producer
from tenfour.commands.mcp_bridge import LONGEST_LINE

from tests.client.conftest import Run
from tests.client.faulty import DROPPED, Fault, FaultyLine
from tests.loops import run_coroutine
from tests.serving import Tenfour, environment

pytestmark = pytest.mark.django_db(transaction=True)

MODERN = "2026-07-28"
PING = {"jsonrpc": "2.0", "id": 7, "method": "ping"}


@pytest.fixture
def env(tenfour_server: Tenfour, tmp_path: Path) -> dict[str, str]:
    """The environment of an agent that `tenfour init` has connected: no token in a variable."""
    given = {"url": tenfour_server.url, "token": tenfour_server.token("agent", "coder")}
    file = tmp_path / "tenfour" / "connections.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"*": given}))
    return {"XDG_CONFIG_HOME": str(tmp_path)}


@pytest.mark.parametrize(
    ("version", "mode"),
    [("2025-06-18", "legacy"), ("2025-11-25", "legacy"), (MODERN, "auto"), (MODERN, MODERN)],
)
def test_the_official_client_works_over_stdio(
    producer: Producer,
    env: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    version: str,
    mode: Any,
) -> None:
    if mode == "legacy":
        monkeypatch.setattr(session, "LATEST_HANDSHAKE_VERSION", version)
    producer.instructions.send("coder", "Look at it ✓")
    bridge = StdioServerParameters(
        command=sys.executable, args=["-m", "tenfour", "mcp"], env=environment(env)
    )

    async def work() -> None:
        async with Client(stdio_client(bridge), mode=mode) as client:
            assert client.protocol_version == version
            assert "claim_task" in [tool.name for tool in (await client.list_tools()).tools]
            pulled = await client.call_tool("get_instructions", {})
            assert "Look at it ✓" in str(pulled.structured_content)
            refused = await client.call_tool("report_result", {"attempt": "x", "status": "success"})
            assert refused.is_error
            assert (await client.get_prompt("work")).messages

    run_coroutine(work())


def test_bad_lines_are_answered_and_notifications_are_not(run: Run, env: dict[str, str]) -> None:
    """Bad input of issue 13: not JSON, a batch, an unknown method and version, text of any kind."""
    lines = [
        "not json",
        "",
        "[" * 100_000,
        json.dumps([PING]),
        json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json.dumps(PING | {"id": "é", "method": "teleport\n✓"}),
        json.dumps(PING | {"method": "tools/list", "params": {"_meta": meta("2099-01-01")}}),
        json.dumps(
            PING
            | {
                "method": "tools/call",
                "params": {"name": " ü ✓", "arguments": {}, "_meta": meta(MODERN)},
            }
        ),
        json.dumps(PING),
    ]
    ran = run("mcp", stdin="\n".join(lines), env=env)
    assert (ran.status, ran.err) == (0, "")
    answers = [json.loads(line) for line in ran.out.splitlines()]
    codes = [answer.get("error", {}).get("code") for answer in answers]
    assert codes == [-32700, -32700, -32600, -32601, -32022, -32602, None]
    assert [answer["id"] for answer in answers] == [None, None, None, "é", 7, 7, 7]
    assert "There is no tool" in answers[5]["error"]["message"]
    assert answers[-1]["result"] == {}


def test_a_line_that_is_too_long_costs_only_itself(run: Run, env: dict[str, str]) -> None:
    ran = run("mcp", stdin="x" * (2 * LONGEST_LINE + 1) + "\n" + json.dumps(PING), env=env)
    refused, answered = map(json.loads, ran.out.splitlines())
    assert "longer than 16 MiB" in refused["error"]["message"] and answered["result"] == {}


def test_a_server_that_is_away_is_an_error_in_plain_words(
    run: Run, env: dict[str, str], tenfour_server: Tenfour, line: FaultyLine
) -> None:
    """The bridge continues: the call after it is answered."""
    proxy = Fault(502, {"Content-Type": "text/html"}, b"<html>Bad gateway</html>")
    line.faults.extend([DROPPED, DROPPED, proxy])
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    text = "\n".join(json.dumps(each) for each in (PING, note, PING | {"id": 8}, PING | {"id": 9}))
    given = {"TENFOUR_URL": line.url, "TENFOUR_TOKEN": tenfour_server.token("agent", "coder")}
    ran = run("mcp", stdin=text, env=given)
    lost, foreign, answered = map(json.loads, ran.out.splitlines())
    assert (lost["id"], lost["error"]["code"]) == (7, -32000)
    assert "did not respond" in lost["error"]["message"]
    assert "answered 502, but not as Tenfour does" in foreign["error"]["message"]
    assert (answered["id"], answered["result"]) == (9, {})

    ran = run("mcp", stdin=json.dumps(PING), env=given | {"TENFOUR_URL": "http://127.0.0.1:1"})
    assert "cannot be reached at http://127.0.0.1:1" in json.loads(ran.out)["error"]["message"]
    ran = run("mcp", stdin=json.dumps(PING), env=given | {"TENFOUR_TOKEN": "tenfour_wrong"})
    refused = json.loads(ran.out)
    assert refused["id"] == 7 and "token" in refused["error"]["message"]


def test_without_a_token_it_says_so_and_ends(run: Run, tmp_path: Path) -> None:
    ran = run("mcp", stdin=json.dumps(PING), env={"XDG_CONFIG_HOME": str(tmp_path)})
    assert (ran.status, ran.out) == (2, "") and "TENFOUR_URL is not set" in ran.err


def meta(version: str) -> dict[str, Any]:
    name = "io.modelcontextprotocol/"
    return {f"{name}protocolVersion": version, f"{name}clientCapabilities": {}}
