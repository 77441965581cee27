"""The official client of the protocol works a whole task, in each version that it speaks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client import session
from mcp.client.streamable_http import streamable_http_client

from tests.loops import run_coroutine
from tests.serving import Tenfour
from tests.waiting import PATIENCE_S


@pytest.mark.parametrize(
    ("version", "mode"),
    [
        ("2025-03-26", "legacy"),
        ("2025-06-18", "legacy"),
        ("2025-11-25", "legacy"),
        ("2026-07-28", "auto"),
        ("2026-07-28", "2026-07-28"),
    ],
)
def test_a_task_and_an_instruction(
    tenfour_server: Tenfour, monkeypatch: pytest.MonkeyPatch, version: str, mode: Any
) -> None:
    if mode == "legacy":
        monkeypatch.setattr(session, "LATEST_HANDSHAKE_VERSION", version)
    url, token = tenfour_server.url, tenfour_server.token("agent", "coder")
    producer = tenfour_server.token("orchestrator")

    async def work() -> None:
        async with connect(url, token, mode) as coder, connect(url, producer, mode) as lead:
            assert coder.protocol_version == version
            if mode != version:  # a client that is told the version asks for nothing first
                assert coder.server_info.name == "tenfour"
                assert "claim_task" in (coder.instructions or "")
            names = [tool.name for tool in (await coder.list_tools()).tools]
            assert "claim_task" in names and "send_instruction" not in names
            (prompt,) = (await coder.list_prompts()).prompts
            assert (await coder.get_prompt(prompt.name)).messages
            sent = await call(lead, "send_instruction", agent="coder", content="Look at it")
            made = await call(
                lead, "create_task", title="Add ids", action="add them", verify="x", agent="coder"
            )
            (pulled,) = (await call(coder, "get_instructions"))["instructions"]
            assert pulled["id"] == sent["id"]
            assert (await call(coder, "ack_instruction"))["outcome"] == "done"

            claimed = await call(coder, "claim_task")
            assert claimed["task"]["id"] == made["id"]
            failed = await call(
                coder,
                "report_result",
                attempt=claimed["attempt"]["id"],
                status="failure",
                exit_code=1,
                output="the id is empty",
            )
            if failed["decision"] == "wait":  # of a task on its own: it backs off first
                failed["retry"] = {"attempt": await claim_when_due(coder)}
            done = await call(
                coder,
                "report_result",
                attempt=failed["retry"]["attempt"],
                status="success",
                exit_code=0,
            )
            assert done["decision"] == "done"
            refused = await coder.call_tool("report_result", {"attempt": "x", "status": "success"})
            assert refused.is_error
            with pytest.raises(MCPError, match="There is no tool"):
                await coder.call_tool("resolve_escalation", {})

    run_coroutine(work())


@asynccontextmanager
async def connect(url: str, token: str, mode: Any) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as http:
        server = streamable_http_client(f"{url}/mcp", http_client=http)
        async with Client(server, mode=mode) as client:
            yield client


async def call(client: Client, name: str, **arguments: Any) -> Any:
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result
    return result.structured_content


async def claim_when_due(client: Client) -> str:
    while "attempt" not in (claimed := await call(client, "claim_task")):
        await asyncio.sleep(claimed["next_due_in_ms"] / 1000)
    assert "the id is empty" in claimed["prompt"]
    attempt: str = claimed["attempt"]["id"]
    return attempt
