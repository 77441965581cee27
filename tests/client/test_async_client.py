"""The async client: the same names, the same steps."""

import inspect
import time

import pytest
from tenfour import AsyncClient, Client, ServerAway, TenfourError

from tests.client.faulty import CUT, Fault, FaultyLine, problem
from tests.loops import run_coroutine
from tests.serving import Tenfour


def public(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


def test_both_clients_have_the_same_names() -> None:
    sync, other = Client("http://h", "tenfour_x"), AsyncClient("http://h", "tenfour_x")
    assert public(Client) - {"close"} == public(AsyncClient) - {"aclose"}
    for group in (
        "instructions",
        "tasks",
        "plans",
        "agents",
        "escalations",
        "dead_letters",
        "events",
        "sessions",
        "operations",
        "policies",
        "channels",
        "webhooks",
    ):
        ours, theirs = type(getattr(sync, group)), type(getattr(other, group))
        assert public(ours) == public(theirs)
        for name in public(ours):
            sync_verb, async_verb = (getattr(getattr(c, group), name) for c in (sync, other))
            parameters = [list(inspect.signature(v).parameters) for v in (sync_verb, async_verb)]
            assert parameters[0] == parameters[1], name


def test_the_whole_way_there_and_back(tenfour_server: Tenfour, line: FaultyLine) -> None:
    coder, orchestrating = (
        tenfour_server.token("agent", "coder"),
        tenfour_server.token("orchestrator"),
    )
    line.faults.append(Fault(503, {"Retry-After": "0"}, b"", after=True))

    async def story() -> None:
        async with (
            AsyncClient(line.url, orchestrating) as producer,
            AsyncClient(tenfour_server.url, coder) as agent_client,
        ):
            sent = await producer.instructions.send("coder", "Look", expect="looked")
            other = await producer.instructions.send("coder", "Listen")
            pulled = await agent_client.instructions.pull()
            assert [each.text for each in pulled] == ["Look", "Listen"]
            assert await agent_client.signal("looked", {"n": 1}) == (sent.id,)
            assert (await agent_client.instructions.ack(other.id, note="yes")).is_acknowledged
            (acked,) = await agent_client.instructions.ack([other.id])
            assert acked.status == 200
            seen = [each.id async for each in producer.instructions.list()]
            assert seen == [other.id, sent.id]
            assert (await producer.instructions.get(sent.id)).data == {"n": 1}
            assert [each.name async for each in producer.agents.list()] == ["coder"]
            assert (await producer.stats()).project.acknowledged == 2
            with pytest.raises(TenfourError):
                await producer.instructions.cancel(sent.id)

    run_coroutine(story())


def test_the_line_breaks_and_the_server_asks_for_patience(
    tenfour_server: Tenfour, line: FaultyLine
) -> None:
    secret = tenfour_server.token("agent", "coder")
    line.faults += [problem(429, "rate_limited", Retry_After="1"), CUT]

    async def story() -> None:
        async with AsyncClient(line.url, secret) as client:
            began = time.monotonic()
            with pytest.raises(ServerAway):
                await client.me()
            assert time.monotonic() - began >= 1
            assert (await client.me()).agent == "coder"

    run_coroutine(story())
    assert len(line.seen) == 3


def test_nobody_listening() -> None:
    async def story() -> None:
        async with AsyncClient("http://127.0.0.1:1", "tenfour_x", retries=0) as client:
            await client.me()

    with pytest.raises(ServerAway):
        run_coroutine(story())
